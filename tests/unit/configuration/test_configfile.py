"""Configuration files on disk, and on a machine: what is read, and in which order."""

import os
from pathlib import Path

import pytest

from tests.unit.configuration.test_config import parse
from tierd.configuration import configfile
from tierd.configuration.config import Config, Mode
from tierd.configuration.configfile import ConfigErrors


class TestAgainstTheMachine:
    def test_an_override_names_nodes_that_are_there(self) -> None:
        parsed = parse("mode: manage", "tiers:\n- [0]\n- [1, 7]\n- 3")
        with pytest.raises(ConfigErrors) as caught:
            configfile.check_against(parsed, ((0, 1), (0, 1, 3)))
        assert caught.value.lines == (
            "1.yaml:3:7: tiers: node 7 does not exist, expected nodes with memory: 0-1",
            "1.yaml:4:3: tiers: node 3 has no memory online, expected nodes with memory: 0-1",
        )

    def test_it_is_told_with_the_rest(self, tmp_path: Path) -> None:
        path = tmp_path / "tierd.yaml"
        path.write_text("mode: x\ntiers: [[0], [7]]")
        with pytest.raises(ConfigErrors) as caught:
            configfile.load(path, None, nodes=((0, 1), (0, 1)))
        assert caught.value.lines == (
            f"{path}:1:7: mode: expected manage or observe, found 'x'",
            f"{path}:2:15: tiers: node 7 does not exist, expected nodes with memory: 0-1",
        )

    def test_an_override_that_cannot_be_read_is_not_held_against_the_machine(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "tierd.yaml"
        path.write_text("tiers: [[0], [x, 7]]")
        with pytest.raises(ConfigErrors) as caught:
            configfile.load(path, None, nodes=((0, 1), (0, 1)))
        assert len(caught.value.lines) == 1

    def test_what_fits_passes(self) -> None:
        configfile.check_against(parse("tiers: [[0], [1]]"), ((0, 1, 2), (0, 1, 2)))
        configfile.check_against(parse(""), ((0,), (0,)))

    def test_marks_are_of_the_file_that_won(self) -> None:
        parsed = parse("tiers: [[0], [1]]", "mode: manage\ntiers: [[1], [0]]")
        assert str(parsed.places["tiers", 0, 1]) == "1.yaml:2:10"


class TestFiles:
    def test_the_drop_ins_come_after_by_name(self, tmp_path: Path) -> None:
        main, folder = tmp_path / "tierd.yaml", tmp_path / "tierd.d"
        folder.mkdir()
        main.write_text("headroom: 1%\nloop: {tick: 2s}")
        (folder / "20-b.yaml").write_text("headroom: 3%")
        (folder / "10-a.yaml").write_text("headroom: 2%\nmode: observe")
        for ignored in (".hidden.yaml", "README", "30-c.yaml~", "40-d.yaml.dpkg-old"):
            (folder / ignored).write_text("nonsense: [")
        parsed = configfile.load(main, folder)
        assert parsed.config == Config(
            headroom_bp=300, used_bp=9720, mode=Mode.observe, tick_ms=2000
        )
        assert parsed.files == tuple(map(str, (main, folder / "10-a.yaml", folder / "20-b.yaml")))

    def test_no_file_is_fine_unless_somebody_named_it(self, tmp_path: Path) -> None:
        path = tmp_path / "tierd.yaml"
        assert configfile.load(path, tmp_path / "tierd.d").config == Config()
        with pytest.raises(ConfigErrors, match="does not exist") as caught:
            configfile.load(path, None, required=True)
        assert caught.value.lines == (f"{path}:1:1: does not exist",)

    def test_what_cannot_be_read_is_told_with_the_rest(self, tmp_path: Path) -> None:
        main, folder = tmp_path / "tierd.yaml", tmp_path / "tierd.d"
        folder.mkdir()
        main.mkdir()
        (folder / "a.yaml").write_bytes("# Größe\nmode: Ä".encode() + b"\xe9\n")
        (folder / "b.yaml").write_text("mode: x")
        (folder / "c.yml").write_text("mode: observe")
        (folder / "d.yaml").symlink_to("nowhere")
        with pytest.raises(ConfigErrors) as caught:
            configfile.load(main, folder)
        assert caught.value.lines == (
            f"{folder}/a.yaml:2:8: byte 0xe9 is not UTF-8: save the file as UTF-8",
            f"{folder}/b.yaml:1:7: mode: expected manage or observe, found 'x'",
            f"{folder}/c.yml:1:1: is not read: rename it so that it ends in .yaml",
            f"{folder}/d.yaml:1:1: does not exist",
            f"{main}:1:1: cannot be read: expected a regular file",
        )

    def test_a_folder_that_is_none_is_told(self, tmp_path: Path) -> None:
        folder = tmp_path / "tierd.d"
        folder.write_text("")
        with pytest.raises(ConfigErrors, match="cannot be listed: Not a directory"):
            configfile.load(tmp_path / "tierd.yaml", folder)


class TestWhatIsNoConfiguration:
    def test_a_fifo_is_not_waited_for(self, tmp_path: Path) -> None:
        path = tmp_path / "fifo.yaml"
        os.mkfifo(path)
        with pytest.raises(ConfigErrors, match=r"fifo.yaml.*: expected a regular file"):
            configfile.load(path, None, required=True)

    def test_a_fifo_among_the_drop_ins_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "fifo.yaml")
        with pytest.raises(ConfigErrors, match="expected a regular file"):
            configfile.load(tmp_path / "none.yaml", tmp_path)

    def test_a_device_is_not_read_for_ever(self) -> None:
        with pytest.raises(ConfigErrors, match=r"/dev/zero.*: expected a regular file"):
            configfile.load(Path("/dev/zero"), None, required=True)

    def test_a_file_is_read_to_its_bound_and_no_further(self, tmp_path: Path) -> None:
        path = tmp_path / "large.yaml"
        with path.open("wb") as file:
            file.write(b"headroom: 2%\n#")
            file.truncate(configfile.FILE_BYTES_MAX + 1)
        with pytest.raises(ConfigErrors, match="too large: expected at most 256 KiB"):
            configfile.load(path, None, required=True)
        # Up to this size the text is checked, and has its own limit.
        path.write_bytes(b"headroom: 2%\n#" + b"x" * (configfile.FILE_BYTES_MAX - 14))
        with pytest.raises(ConfigErrors, match="too large: expected at most 64 KiB"):
            configfile.load(path, None, required=True)
