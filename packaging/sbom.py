#!/usr/bin/env python3
"""Software bills of materials: the libraries that are compiled into an artefact.

    sbom.py wheel FILE HEADERS        puts one into the wheel (PEP 770, CycloneDX 1.6); HEADERS: the folder of jansson.h
    sbom.py tarball FILE              writes FILE.spdx.json (SPDX 2.3), of a source tarball
    sbom.py check                     THIRD_PARTY.txt and pyproject.toml name the components of this list, and no others

A component is in a wheel if one of its binaries has its mark. Nothing depends on the time or the machine: dates
come from SOURCE_DATE_EPOCH.
"""
import base64
import hashlib
import json
import os
import pathlib
import re
import sys
import time
import tomllib
import uuid
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
OWN_LICENSE = "Apache-2.0"
# mark: words of its code, which each file of this name has. version: where its header has it.
COMPONENTS = {
    "jansson": {"license": "MIT", "url": "https://github.com/akheron/jansson", "in": "fovea-tune",
                "mark": b"object item(s) left unpacked: %s",
                "version": ("jansson.h", r'#define JANSSON_VERSION "(.*)"')},
}
# The tarball contains no code of others. What a build may link, and where; what only tests and benchmarks need is
# CMake's to tell.
LINKED = {
    "jansson": ("MIT", "fovea-tune and the programs of tools"),
    "utf8proc": ("MIT AND Unicode-DFS-2015", "the programs of tools"),
    "openssl": ("Apache-2.0", "fovea-generate and fovea-embed"),
    "lapack": ("BSD-3-Clause", "fovea-inspect"),
}


def stated():
    """Names and addresses of THIRD_PARTY.txt: lines such as 'jansson (in fovea-tune), https://...'."""
    return dict(re.findall(r"^(\w+) \(in .*\), (https://\S+)$", (ROOT / "THIRD_PARTY.txt").read_text(), re.MULTILINE))


def license_of(names):
    return " AND ".join([OWN_LICENSE, *sorted({COMPONENTS[name]["license"] for name in names})])


def check():
    listed = {name: component["url"] for name, component in COMPONENTS.items()}
    if stated() != listed:
        sys.exit(f"THIRD_PARTY.txt names {stated()}, packaging/sbom.py {listed}: what is compiled in stands in both")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if project["license"] != license_of(COMPONENTS):
        sys.exit(f'pyproject.toml: license is "{project["license"]}", '
                 f'its components make it "{license_of(COMPONENTS)}"')


def moment():
    return time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))


def when():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", moment())


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def cyclonedx(name, version, files, headers):
    parts = []
    for part, component in COMPONENTS.items():
        holders = sorted(path for path, data in files.items() if component["mark"] in data)
        bearers = [data for file, data in files.items() if file.rpartition("/")[2].startswith(component["in"])]
        if any(component["mark"] not in data for data in bearers):
            sys.exit(f"sbom.py: {component['in']} is without the mark of {part}; has another release other words?")
        if holders:
            header, pattern = component["version"]
            number = re.search(pattern, (headers / header).read_text())[1]
            parts.append({"type": "library", "bom-ref": part, "name": part, "version": number,
                          "purl": f"pkg:generic/{part}@{number}",
                          "licenses": [{"license": {"id": component["license"]}}],
                          "externalReferences": [{"type": "website", "url": component["url"]}],
                          "evidence": {"occurrences": [{"location": path} for path in holders]}})
    digest = sha256("".join(f"{path} {sha256(data)}\n" for path, data in sorted(files.items())).encode())
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX",
        "specVersion": "1.6", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "metadata": {"timestamp": when(), "component": {
            "type": "library", "bom-ref": name, "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}",
            "licenses": [{"license": {"id": OWN_LICENSE}}]}},
        "components": parts, "dependencies": [{"ref": name, "dependsOn": [part["name"] for part in parts]}]}


def record(files, own):
    """RECORD of a wheel: each file with its hash, and itself without one."""
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{own},,\n"]).encode()


def wheel(path, headers):
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        files = {info.filename: archive.read(info) for info in infos}
    own = next(name for name in files if name.endswith(".dist-info/RECORD"))
    folder = own.removesuffix("/RECORD")
    metadata = files[f"{folder}/METADATA"].decode()
    name, version, expression = (re.search(f"^{field}: (.*)$", metadata, re.MULTILINE)[1]
                                 for field in ("Name", "Version", "License-Expression"))
    bom = cyclonedx(name, version, files, headers)
    missing = [part["name"] for part in bom["components"] if part["name"] not in stated()]
    if missing or expression != license_of(COMPONENTS):
        sys.exit(f"{path.name}: its licence is {expression}; THIRD_PARTY.txt lacks: {missing}")
    del files[own]
    files[f"{folder}/sboms/{name}.cdx.json"] = (json.dumps(bom, indent=1) + "\n").encode()
    mode = {info.filename: info.external_attr for info in infos}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in {**files, own: record(files, own)}.items():
            info = zipfile.ZipInfo(file, moment()[:6])
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, mode.get(file, 0o100644 << 16)
            archive.writestr(info, data)


def tarball(path):
    name = path.name.removesuffix(".gz").removesuffix(".xz").removesuffix(".tar")
    digest = sha256(path.read_bytes())
    version = re.search(r"[0-9].*", name)[0]
    packages, relationships = [], [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                                    "relatedSpdxElement": "SPDXRef-Fovea"}]
    rows = {"Fovea": (OWN_LICENSE, "")} | LINKED
    for part, (terms, users) in rows.items():
        packages.append({"SPDXID": f"SPDXRef-{part}", "name": part, "downloadLocation": "NOASSERTION",
                         "filesAnalyzed": False,
                         "licenseConcluded": terms, "licenseDeclared": terms, "copyrightText": "NOASSERTION"})
        if users:
            packages[-1]["comment"] = f"not in the tarball; a build links it to {users}"
            relationships.append({"spdxElementId": f"SPDXRef-{part}", "relationshipType": "OPTIONAL_DEPENDENCY_OF",
                                  "relatedSpdxElement": "SPDXRef-Fovea"})
    packages[0] |= {"versionInfo": version, "packageFileName": path.name,
                    "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]}
    document = {"spdxVersion": "SPDX-2.3", "SPDXID": "SPDXRef-DOCUMENT", "dataLicense": "CC0-1.0", "name": name,
                "documentNamespace": f"https://fovea.invalid/spdx/{name}-{digest}",
                "creationInfo": {"created": when(), "creators": ["Tool: packaging/sbom.py"]},
                "packages": packages, "relationships": relationships}
    pathlib.Path(f"{path}.spdx.json").write_text(json.dumps(document, indent=1) + "\n")


def main():
    check()
    match sys.argv[1:]:
        case ["wheel", file, headers]:
            wheel(pathlib.Path(file), pathlib.Path(headers))
        case ["tarball", file]:
            tarball(pathlib.Path(file))
        case ["check"]:
            pass
        case _:
            sys.exit("usage: sbom.py wheel FILE HEADERS | tarball FILE | check")


if __name__ == "__main__":
    main()
