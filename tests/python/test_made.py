"""A directory that commands filled is removed, whatever they left there, and nothing outside is touched."""
from __future__ import annotations

import os
import stat
import tempfile

import pytest
from callgate import Sandbox
from callgate.made import MadeDirectory

LEFT = {
    "links": "mkdir d; ln -s {victim} d/file; ln -s {folder} d/folder; ln -s ../.. up; chmod 555 d",
    "closed": "mkdir -p a/b/c; touch a/b/c/file; chmod 000 a/b/c a/b a .",
    "others": "mkfifo fifo; touch $'new\\nline' $'\\xff'; mkdir $'\\xfe'",
    "deep": "for n in {{1..300}}; do mkdir d; cd -P d; done",
}


@pytest.mark.parametrize("left", LEFT)
def test_it_is_gone_and_what_links_lead_to_is_as_before(left, tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_text("of the user")
    folder.mkdir(mode=0o755)
    (folder / "file").write_text("of the user")
    victim.chmod(0o644)
    made = MadeDirectory()
    assert stat.S_IMODE(os.stat(made.name).st_mode) == 0o700
    result = Sandbox(workdir=made.name).run(LEFT[left].format(victim=victim, folder=folder))
    assert result.exit_code == 0, result
    made.cleanup()
    made.cleanup()
    assert not os.path.lexists(made.name)
    assert (stat.S_IMODE(victim.stat().st_mode), stat.S_IMODE(folder.stat().st_mode)) == (0o644, 0o755)
    assert victim.read_text() == (folder / "file").read_text() == "of the user"


def test_it_goes_with_the_object():
    made = MadeDirectory()
    name = made.name
    del made
    assert not os.path.lexists(name) and name.startswith(tempfile.gettempdir())
