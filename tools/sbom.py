#!/usr/bin/python3
"""tools/sbom.py BUILD VERSION: prints what the built program consists of, as CycloneDX 1.5.

The build itself says it. The records of ninja name each header that was read for an object, and all that was linked. The
compiler says which libraries and start files it adds. The package of each file, and so its version, comes from dpkg. Where the
build is for another processor, the files of its root are known by the root's own database.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path


def said(*line: str) -> str:
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def files_of(build: Path) -> set[Path]:
    """All files from outside the sources that the program was made of."""
    programs = [one for one in ("callgate", "callgate-tls") if (build / one).exists()]
    inputs = said("ninja", "-C", str(build), "-t", "inputs", *programs).splitlines()
    objects = [one for one in inputs if one.endswith(".o")]
    found = {(build / one.strip()).resolve() for one in said("ninja", "-C", str(build), "-t", "deps", *objects).splitlines()
             if one.startswith("    ")}
    found |= {(build / one).resolve() for one in inputs}
    # Its names become a header when cmake runs, which ninja does not see.
    names = Path(re.search(r"^PUBLIC_SUFFIX_LIST:FILEPATH=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1])
    if not names.is_file():
        raise SystemExit(f"sbom: {build}/CMakeCache.txt is out of date: {names} does not exist; remove {build} and build again")
    found.add(names)
    words = json.loads((build / "compile_commands.json").read_text())[0]["command"].split()
    compiler = [words[0], *(one for one in words if one.startswith("--sysroot="))]
    ninja = (build / "build.ninja").read_text()
    links = "".join(ninja.partition(f"\nbuild {one}: ")[2].partition("\n\n")[0] for one in programs)
    for name in sorted({*re.findall(r"(?<=\s)-l(\S+)", links), "stdc++", "m", "c", "gcc", "gcc_eh"}):
        found.add(Path(said(*compiler, f"-print-file-name=lib{name}.a").strip()).resolve())
    top = Path(__file__).resolve().parents[1]
    own = {one for one in found if top in one.parents and build / "root" not in one.parents}
    return {one for one in found - own if one.is_absolute() and one.is_file()}


def packages_of(files: set[Path], *database: str) -> dict[str, str]:
    """Name to version. A file that no package brings would be missing from the bill: that is an error."""
    names, owned = set(), set()
    query = ["dpkg-query", *database]
    if not files:
        return {}
    # dpkg may know a file by its name from before /lib became a part of /usr.
    lines = subprocess.run([*query, "-S", *sorted({name for one in files for name in (str(one), str(one).removeprefix("/usr"))})],
                           capture_output=True, text=True, check=False).stdout.splitlines()
    for line in lines:
        packages, _, path = line.rpartition(": ")
        owned.add(Path(path).resolve())
        names |= {one.partition(":")[0] for one in packages.split(", ") if not one.startswith("diversion")}
    if missing := sorted(map(str, files - owned)):
        raise SystemExit(f"sbom: no package brings {missing[0]}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""))
    shown = said(*query, "-W", "-f", "${Package} ${Version} ${source:Package} ${Architecture}\n", *sorted(names))
    return {name: f"{version} {source} {architecture}" for name, version, source, architecture in (one.split() for one in shown.splitlines())}


def main(build: Path, version: str) -> None:
    system = dict(one.split("=", 1) for one in Path("/etc/os-release").read_text().splitlines() if "=" in one)
    vendor = system["ID"].strip('"')
    components = []
    files, root = files_of(build), build / "root"
    foreign = {one for one in files if root in one.parents}
    packages = packages_of(files - foreign)
    packages |= packages_of({Path("/", one.relative_to(root)) for one in foreign}, f"--admindir={root}/var/lib/dpkg")
    for name, rest in sorted(packages.items()):
        number, source, architecture = rest.split()
        escaped = number.replace("+", "%2B").replace(":", "%3A").replace("~", "%7E")
        reference = f"pkg:deb/{vendor}/{name}@{escaped}?arch={architecture}"
        components.append({"type": "library", "bom-ref": reference, "name": name, "version": number, "purl": reference,
                           "properties": [{"name": "callgate:source-package", "value": source}]})
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    own = f"pkg:generic/callgate@{version}"
    print(json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"timestamp": moment, "component": {
            "type": "application", "bom-ref": own, "name": "callgate", "version": version, "purl": own,
            "licenses": [{"license": {"id": "Apache-2.0"}}],
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256((build / "callgate").read_bytes()).hexdigest()}]}},
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [one["bom-ref"] for one in components]}]}, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
