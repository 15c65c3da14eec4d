"""The files of the loop: the state to restore, the totals, and the counts of the daemon.

Rules of this file:
1. The state to restore is on disk before the kernel is changed, or the change is not made.
2. Everything else may fail. `Bookkeeping` reports it, and the loop goes on.
3. Totals are saved in the run directory before they are published, so that a kill does not make
   them fall. They are saved in the state directory less often, because each save there is synced.
"""

from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from tierd.errors import TierdError
from tierd.kdamonds import saved
from tierd.kdamonds.restore import saved_in
from tierd.kdamonds.saved import SavedState
from tierd.record import daemon_counts, rundir
from tierd.record import scheme_totals as totals
from tierd.record.bookkeeping import Bookkeeping
from tierd.record.daemon_counts import DaemonCounts
from tierd.record.rundir import FileError, RunDir
from tierd.record.scheme_totals import Totals


@dataclass(slots=True)
class FileStore:
    """The loop's files, in the run and state directories."""

    folder: RunDir
    boot_id: str
    books: Bookkeeping = field(default_factory=Bookkeeping)
    _kept: Totals | None = None

    def record(self, state: SavedState) -> None:
        path, text = self.folder.run / rundir.STATE, saved.to_text(state)
        if len(text) > rundir.STATE_BYTES_MAX:
            raise FileError(
                f"{path} would have {len(text)} bytes, and may have {rundir.STATE_BYTES_MAX}",
                "leave fewer cgroups alone",
            )
        rundir.save(path, text)

    def saved(self) -> SavedState | None:
        return saved_in(self.folder)

    def forget(self) -> None:
        """Remove the saved state. A failure does no harm: the next start finds nothing to undo."""
        path = self.folder.run / rundir.STATE
        self.books.keep(path, lambda: rundir.remove(path))

    def handed_over(self) -> bool:
        marker = self.folder.run / rundir.HAND_OVER
        if not marker.is_file():
            return False
        # The marker is for this stop only.
        self.books.keep(marker, lambda: rundir.remove(marker))
        return True

    def save_counters(self, counters: Totals, *, lasting: bool) -> None:
        """Save the totals. They survive a kill and, if `lasting`, a power cut."""
        if counters == self._kept and not lasting:
            return
        text = totals.to_text(counters, self.boot_id)
        run, state = (folder / rundir.COUNTERS for folder in self.folder)
        kept = run == state or self.books.keep(run, lambda: rundir.save(run, text, lasting=False))
        if lasting or run == state:
            self.books.keep(state, lambda: self._save_state(state, text, lasting=lasting))
        self._kept = counters if kept else None

    def _save_state(self, path: Path, text: str, *, lasting: bool) -> None:
        # Somebody may have removed the directory. A disk that was read-only may be writable now.
        self.folder.make_state()
        rundir.save(path, text, lasting=lasting)

    def counters(self) -> Totals:
        """Return the totals of the newer of the two files. A damaged file is ignored."""
        found = (self._counters(folder) for folder in dict.fromkeys(self.folder))
        return reduce(totals.further, (one for one in found if one is not None), Totals())

    def _counters(self, folder: Path) -> Totals | None:
        path = folder / rundir.COUNTERS
        text = self._text(path, "totals begin at zero")
        found = None if text is None else totals.from_text(text, self.boot_id)
        if text is not None and found is None:
            self.books.failed(path, f"{path} is damaged; totals begin at zero")
        return found

    def save_tally(self, counted: DaemonCounts) -> bool:
        path = self.folder.state / rundir.TALLY
        return self.books.keep(path, lambda: rundir.save(path, daemon_counts.to_text(counted)))

    def tally(self) -> DaemonCounts:
        path = self.folder.state / rundir.TALLY
        text = self._text(path, "counts begin at zero")
        found = DaemonCounts() if text is None else daemon_counts.from_text(text)
        if found is None:
            self.books.failed(path, f"{path} is damaged; counts begin at zero")
        return found or DaemonCounts()

    def _text(self, path: Path, instead: str) -> str | None:
        try:
            return rundir.load(path)
        except TierdError as error:
            self.books.failed(path, f"{error}; {instead}")
            return None
