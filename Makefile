# One entry for people and for CI. `make check` is fast; `make test` is everything, VMs included, but
# for the tests marked rare: those take turns, a share in each run, and a few runs make all of them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The machine of `make vm`.
KERNEL ?= 7.2
TOPOLOGY ?= two-tier

# The share of the rare tests that `make test` makes: a number, or the one after the last.
TURN ?= next

# The matrix of `make bench`.
BENCH_KERNELS ?= 6.12,6.18,7.2
BENCH_TIMES ?= 3

LOCKER := pip-tools==7.6.2

# The Debian of `make bare`.
SUITE ?= bookworm

.PHONY: run bench bench-quick bench-scale check fast test bare installed lint format vm lock

$(VENV)/ready: pyproject.toml requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tierd needs Python 3.11 or later: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement requirements-dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# requirements-dev.txt anew from requirements-dev.in: the newest of what is not pinned there, and the
# hashes of all. By hand, with the oldest Python that is supported, which needs the most packages.
lock:
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet "$(LOCKER)"
	$(VENV)/lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras --no-annotate \
		--no-emit-find-links --no-emit-index-url --no-header \
		--output-file requirements-dev.txt requirements-dev.in

# tierd in the foreground: on this machine if it can be, else on the simulated one; it says which.
run: $(VENV)/ready
	@$(BIN)/tierd run --demo

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Types are checked beside the tests, which run in as many processes as there are processors.
check: $(VENV)/ready
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint fast

fast: $(VENV)/ready
	$(BIN)/pytest -m "not vm and not thorough" -q -n auto --dist worksteal

# The set-up comes first: what makes the environment may be among what it installs. What needs no
# virtual machine runs side by side; guests take turns anyway, and both processors. Tests that wait for
# real programs (`alone`) run with the guests, one by one. The second part is run even if the first
# has failed.
test:
	PYTHON="$(PYTHON)" tools/setup-debian
	$(MAKE) lint
	@failed=0; set -x; \
	$(BIN)/pytest -q -m "not vm and not rare and not alone" -n auto --dist worksteal || failed=1; \
	$(BIN)/pytest -q -m "vm or rare or alone" --turn $(TURN) || failed=1; \
	set +x; \
	[ $$failed = 0 ] || { echo "make test: failed, see above" >&2; exit 1; }

# What a newcomer meets: the fast tests, the set-up, and what rests on it, in a Debian root where
# nothing is installed. As root: make bare SUITE=trixie
bare:
	PYTHON="$(PYTHON)" tools/setup-debian
	$(PYTHON) -m tests.vm.bare $(SUITE) make --no-print-directory check installed

# The tests of what ships, with nothing left out that the set-up should have installed.
installed:
	PYTHON="$(PYTHON)" tools/setup-debian
	$(MAKE) --no-print-directory $(VENV)/ready
	TIERD_REQUIRE_VM=1 $(BIN)/pytest -q tests/unit/shipped tests/unit/console

# Fill in what is missing of the benchmark's matrix (hours; it may be ended and begun again at any
# time), its page, and what tierd itself costs.
bench: $(VENV)/ready
	$(BIN)/python -m bench run --kernels $(BENCH_KERNELS) --phases all --times $(BENCH_TIMES)
	$(BIN)/python -m bench report
	$(BIN)/python -m bench.cost

# redis on a machine with slow memory, with tierd and without: at most 15 minutes, once the machine's
# disk has been made, with a chart at the end.
bench-quick: $(VENV)/ready
	$(BIN)/python -m bench.quick

# The real loop on simulated machines of 4 GiB to 2 TiB: a table of what came up, what moved for it,
# and what was stopped. An hour or two on one processor; what is in the file is not run again.
bench-scale: $(VENV)/ready
	$(BIN)/python -m bench.scale --seeds 1,2,3 --save bench-scale.json

# A root shell in a virtual machine: make vm KERNEL=6.12 TOPOLOGY=three-tier
vm: $(VENV)/ready
	$(BIN)/python -m tests.vm $(KERNEL) $(TOPOLOGY)

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
