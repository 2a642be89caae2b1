"""Words from elsewhere do here what they say."""
from __future__ import annotations

import socket

import pytest
from callgate import CallgateError, Sandbox, policy


def test_the_words_proposed_for_autogen_and_crewai(tmp_path):
    (tmp_path / "in").write_text("data")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = dict(fs_read=[tmp_path], fs_write=[tmp_path / "out"], net_allow=[f"127.0.0.1:{port}"], max_memory_mb=300,
                     max_procs=30)
        (tmp_path / "out").mkdir()
        crew = policy.from_crewai(**{{"max_memory_mb": "sandbox_max_memory_mb", "max_procs": "sandbox_max_procs"}.get(
            name, f"sandbox_{name}"): value for name, value in words.items()})
        for sandbox in (Sandbox(**policy.from_autogen(**words)), Sandbox(**crew)):
            script = f"cat {tmp_path}/in; echo x > {tmp_path}/out/x; exec 3<>/dev/tcp/127.0.0.1/{port}; echo y > {tmp_path}/no"
            result = sandbox.run(script)
            assert result.text == "data" and [one.object for one in result.denials] == [f"{tmp_path}/no"]
            assert result.report["limits"]
    with pytest.raises(CallgateError, match="net_allow has 'x'"):
        policy.from_autogen(net_allow=["x"])
    with pytest.raises(CallgateError, match="max_procs is 0"):
        policy.from_autogen(max_procs=0)
    with pytest.raises(CallgateError, match="docker"):
        policy.from_crewai(execution_backend="docker")


def test_sandlocks_words(tmp_path, monkeypatch):
    monkeypatch.setenv("CG_PLAIN", "kept")
    words = policy.from_sandlock(fs_readable=[tmp_path], max_memory="300M", max_processes=30, clean_env=False,
                                 env={"A": "b"}, cwd=tmp_path)
    assert Sandbox(**words).run('echo "$A $CG_PLAIN $PWD"').text == f"b kept {tmp_path}\n"
    assert "kept" not in Sandbox(**policy.from_sandlock()).run('echo "$CG_PLAIN"').text


def test_tool_safety(tmp_path):
    outside = tmp_path / "outside"
    assert Sandbox(**policy.from_tool_safety()).run(f"echo x > {outside}").exit_code == 1
    assert Sandbox(**policy.from_tool_safety(allow_filesystem=True)).run(f"echo x > {outside}").exit_code == 0
    assert Sandbox(**policy.from_tool_safety(allow_filesystem=True, timeout=5)).run("cat /etc/shadow").exit_code == 1
    closed = Sandbox(**policy.from_tool_safety()).run("exec 3<>/dev/tcp/192.0.2.1/9")
    assert [one.object for one in closed.denials] == ["192.0.2.1:9"]
