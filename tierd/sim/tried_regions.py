"""The tried_regions directories of schemes: the files with the results of a walk."""

from tierd.sim.context_spec import TriedRegion
from tierd.sim.damon_directory import assign, clear_numbered, objects
from tierd.sim.file_tree import ROOT_READ_ONLY, Directory, Fixed
from tierd.sim.quirks import Numbering, SysfsQuirks

Regions = tuple[TriedRegion, ...]


class TriedRegionFiles:
    """The tried regions of one kdamond's schemes; `schemes` are their directories."""

    def __init__(self, sysfs_quirks: SysfsQuirks) -> None:
        self._sysfs_quirks = sysfs_quirks
        # The number of regions of each scheme, as a kernel that counts them wrongly knows it.
        self._nr_regions: dict[Directory, int] = {}

    def clear(self, schemes: list[Directory]) -> None:
        """Remove the directories of all regions (damon_sysfs_schemes_clear_regions())."""
        for scheme in schemes:
            folder = scheme.directory("tried_regions")
            gone = len(objects(folder))
            self._nr_regions[folder] = self._nr_regions.get(folder, 0) - gone
            clear_numbered(folder)
            assign(scheme, "tried_regions/total_bytes", 0)

    def show_bytes(self, schemes: list[Directory], total_bytes: tuple[int, ...]) -> None:
        """Write how many bytes each scheme tried."""
        for scheme, total in zip(schemes, total_bytes, strict=False):
            assign(scheme, "tried_regions/total_bytes", total)

    def show_regions(
        self, schemes: list[Directory], regions: tuple[Regions, ...], nr_probes: int
    ) -> None:
        """Create a directory for each tried region (damos_sysfs_populate_region_dir())."""
        for scheme, numbered in zip(schemes, self._numbered(schemes, regions), strict=False):
            folder = scheme.directory("tried_regions")
            for number, region in numbered:
                folder.entries[str(number)] = self._folder(region, nr_probes)

    def _numbered(
        self, schemes: list[Directory], regions: tuple[Regions, ...]
    ) -> list[list[tuple[int, TriedRegion]]]:
        match self._sysfs_quirks.numbering:
            case Numbering.each_scheme:
                return [list(enumerate(tried)) for tried in regions]
            case Numbering.twice:
                pairs = zip(schemes, regions, strict=False)
                return [self._numbered_twice(scheme, tried) for scheme, tried in pairs]
            case Numbering.whole_walk:
                return _numbered_together(regions)

    def _numbered_twice(self, scheme: Directory, tried: Regions) -> list[tuple[int, TriedRegion]]:
        folder = scheme.directory("tried_regions")
        nr_regions = self._nr_regions.get(folder, 0)
        self._nr_regions[folder] = nr_regions + 2 * len(tried)
        return [(nr_regions + 1 + 2 * index, region) for index, region in enumerate(tried)]

    def _folder(self, region: TriedRegion, nr_probes: int) -> Directory:
        folder = Directory()
        for name in ("start", "end", "nr_accesses", "age"):
            folder.put(name, Fixed(str(getattr(region, name)), ROOT_READ_ONLY))
        if self._sysfs_quirks.sz_filter_passed:
            folder.put("sz_filter_passed", Fixed(str(region.sz_filter_passed), ROOT_READ_ONLY))
        if self._sysfs_quirks.probe_hits:
            folder.make("probes")
            for index in range(nr_probes):
                hits = region.probe_hits[index] if index < len(region.probe_hits) else 0
                folder.put(f"probes/{index}/hits", Fixed(str(hits), ROOT_READ_ONLY))
        return folder


def _numbered_together(regions: tuple[Regions, ...]) -> list[list[tuple[int, TriedRegion]]]:
    walk = sorted((r.start, scheme) for scheme, tried in enumerate(regions) for r in tried)
    numbers = {step: number for number, step in enumerate(walk)}
    return [
        [(numbers[(region.start, scheme)], region) for region in tried]
        for scheme, tried in enumerate(regions)
    ]
