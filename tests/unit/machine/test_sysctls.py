"""Which program or file has set a sysctl."""

from tests.fixtures.machines import TextSysfs
from tierd.machine.sysctls import Claim, claims, owner

KEY = "kernel.numa_balancing"


def of(files: dict[str, str]) -> tuple[Claim, ...]:
    return claims(TextSysfs(files), KEY)


def test_no_place_sets_the_sysctl() -> None:
    assert of({}) == ()


def test_the_last_file_by_name_wins_wherever_it_lies() -> None:
    files = {
        "etc/sysctl.d/10-a.conf": "# kernel.numa_balancing = 7\nkernel.numa_balancing = 1\n",
        "usr/lib/sysctl.d/50-b.conf": "-kernel/numa_balancing=2\nvm.swappiness=1\n",
    }
    assert of(files) == (
        Claim("/etc/sysctl.d/10-a.conf", "1"),
        Claim("/usr/lib/sysctl.d/50-b.conf", "2"),
    )


def test_a_file_in_etc_replaces_one_of_the_same_name() -> None:
    files = {
        "usr/lib/sysctl.d/50-b.conf": "kernel.numa_balancing=2\n",
        "etc/sysctl.d/50-b.conf": "",
        "etc/sysctl.d/notes.txt": "kernel.numa_balancing=5\n",
    }
    assert of(files) == ()


def test_the_command_line_and_the_old_file() -> None:
    files = {
        "proc/cmdline": "quiet numa_balancing=disable ro",
        "etc/sysctl.conf": "kernel.numa_balancing=1",
    }
    assert of(files) == (Claim("the kernel's command line", "0"), Claim("/etc/sysctl.conf", "1"))


def test_tuned_profiles_include_others_and_have_the_last_word() -> None:
    files = {
        "etc/sysctl.d/a.conf": "kernel.numa_balancing=1",
        "etc/tuned/active_profile": "mine\n",
        "etc/tuned/mine/tuned.conf": "[main]\ninclude=virtual-guest\n[vm]\nx=1\n",
        "usr/lib/tuned/virtual-guest/tuned.conf": "[main]\ninclude=throughput-performance\n",
        "usr/lib/tuned/profiles/throughput-performance/tuned.conf": (
            "[sysctl]\nkernel.numa_balancing=0\n"
        ),
    }
    claimed = of(files)
    assert claimed[-1] == Claim("the tuned profile mine", "0")
    assert owner(claimed, "0") == claimed[-1]
    assert owner(claimed, "1") == Claim("/etc/sysctl.d/a.conf", "1")
    assert owner(claimed, "2") is None


def test_a_profile_that_includes_itself_or_is_no_profile_ends() -> None:
    loop = {
        "etc/tuned/active_profile": "loop broken gone",
        "etc/tuned/loop/tuned.conf": "[main]\ninclude=loop\n",
        "etc/tuned/broken/tuned.conf": "no section = 1\n",
    }
    assert of(loop) == ()
