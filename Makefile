# One entry for people and for CI. `make check` is fast; `make test` is everything, VMs included.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The machine of `make vm`.
KERNEL ?= 7.2
TOPOLOGY ?= two-tier

# The matrix of `make bench`.
BENCH_KERNELS ?= 6.12,6.18,7.2
BENCH_TIMES ?= 3

.PHONY: run bench check test lint format vm

$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tierd needs Python 3.11 or later: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --group dev --editable .
	touch $@

# tierd in the foreground: on this machine if it can be, else on the simulated one; it says which.
run: $(VENV)/ready
	@$(BIN)/tierd run --demo

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint
	$(BIN)/pytest -m "not vm and not thorough" -q

# The set-up comes first: what makes the environment may be among what it installs.
test:
	PYTHON="$(PYTHON)" tools/setup-debian
	$(MAKE) lint
	$(BIN)/pytest -q -m "not rare"

# Fill in what is missing of the benchmark's matrix (hours; it may be ended and begun again at any
# time), its page, and what tierd itself costs.
bench: $(VENV)/ready
	$(BIN)/python -m bench run --kernels $(BENCH_KERNELS) --phases all --times $(BENCH_TIMES)
	$(BIN)/python -m bench report
	$(BIN)/python -m bench.cost

# A root shell in a virtual machine: make vm KERNEL=6.12 TOPOLOGY=three-tier
vm: $(VENV)/ready
	$(BIN)/python -m tests.vm $(KERNEL) $(TOPOLOGY)

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
