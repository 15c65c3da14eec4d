"""Write docs/doctor.md from the checks."""

from pathlib import Path

from tierd.doctor import doctor

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    (ROOT / doctor.PAGE).write_text(doctor.page(), encoding="utf-8")
