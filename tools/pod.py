#!/usr/bin/python3
"""tools/pod.py MANIFEST DIRECTORY IMAGE [MOUNT]...: the pod of a Kubernetes manifest as crictl takes it.

Writes DIRECTORY/pod.json and DIRECTORY/container.json, and the volumes beneath DIRECTORY: an emptyDir is a directory, a ConfigMap
or a Secret of the same manifest its files. What a kubelet hands to the runtime is handed on: user, groups, seccomp profile,
capabilities, read-only root, no_new_privs, command, environment, mounts. Requests and limits are not, because the runtime of
tools/engines.sh has no control groups. IMAGE takes the place of the manifest's image; a MOUNT is a further directory, read-only.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

SECCOMP = {"RuntimeDefault": 0, "Unconfined": 1}


def volume(place: Path, spec: dict, objects: dict) -> Path:
    made = place / "volumes" / spec["name"]
    made.mkdir(parents=True)
    made.chmod(0o777)  # fsGroup
    kind, name = ("ConfigMap", spec["configMap"]["name"]) if "configMap" in spec else ("Secret", spec.get("secret", {}).get("secretName"))
    if name:
        for file, text in objects[kind, name].get("data", objects[kind, name].get("stringData", {})).items():
            (made / file).write_text(text)
    return made


def main() -> None:
    manifest, place, image, *mounts = sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]
    objects = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(Path(manifest).read_text())}
    owner = next(one for (kind, _), one in objects.items() if kind in ("Job", "Deployment"))
    pod = owner["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    user, own = pod["securityContext"], container["securityContext"]
    security = {
        "run_as_user": {"value": user["runAsUser"]}, "run_as_group": {"value": user["runAsGroup"]}, "supplemental_groups": [user["fsGroup"]],
        "seccomp": {"profile_type": SECCOMP[user["seccompProfile"]["type"]]}, "no_new_privs": not own["allowPrivilegeEscalation"],
        "readonly_rootfs": own["readOnlyRootFilesystem"], "capabilities": {"drop_capabilities": own["capabilities"]["drop"]},
        "namespace_options": {"network": 2},  # the host's: that of tools/engines.sh, so no network plugin is needed
    }
    directories = {one["name"]: volume(place, one, objects) for one in pod["volumes"]}
    (place / "pod.json").write_text(json.dumps({
        "metadata": {"name": owner["metadata"]["name"], "namespace": "default", "uid": "1", "attempt": 0}, "log_directory": str(place),
        "linux": {"security_context": {key: security[key] for key in ("namespace_options", "seccomp", "run_as_user", "run_as_group")}}}))
    (place / "container.json").write_text(json.dumps({
        "metadata": {"name": container["name"]}, "image": {"image": image}, "command": container["command"], "log_path": "log",
        "args": container.get("args", []), "working_dir": container["workingDir"],
        "envs": [{"key": one["name"], "value": one["value"]} for one in container.get("env", [])],
        "mounts": [{"host_path": str(directories[one["name"]]), "container_path": one["mountPath"], "readonly": one.get("readOnly", False)}
                   for one in container["volumeMounts"]] +
                  [{"host_path": one, "container_path": one, "readonly": True} for one in mounts],
        "linux": {"security_context": security}}))


if __name__ == "__main__":
    main()
