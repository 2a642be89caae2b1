"""The wheel carries a program: it fits every Python 3, and the machines that CALLGATE_WHEEL_PLATFORM names (tools/wheel.sh)."""
import os
from pathlib import Path

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel  # setuptools 70.1 and newer
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

if not (Path(__file__).parent / "callgate" / "_bin" / "callgate").exists():
    raise SystemExit("callgate/_bin/callgate is missing: ./dev wheel builds the program and puts it there")


class WithProgram(Distribution):
    def has_ext_modules(self):
        """So the wheel is one of a platform."""
        return True


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", os.environ.get("CALLGATE_WHEEL_PLATFORM") or super().get_tag()[2]


top = Path(__file__).parent
folders = sorted({one.parent.relative_to(top) for one in top.glob("share/**/*") if one.is_file()})
pages = [(str(one), sorted(str(page.relative_to(top)) for page in (top / one).iterdir() if page.is_file())) for one in folders]

setup(data_files=pages, distclass=WithProgram, cmdclass={"bdist_wheel": PlatformWheel})
