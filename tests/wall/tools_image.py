"""Images of the tests: what sandboxkit/base holds, and a little more."""
import io
import pathlib
import tarfile

from house import UnixHttp
from spaces import run_where_it_began
from wall_engine import IMAGE

TOOLS = "sandboxkit/test-tools"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"


def archive_call(own, method, container, path, body=None):
    connection = UnixHttp(own.socket, 120)
    connection.request(method, f"/v1.41/containers/{container}/archive?path=/{path}", body,
                       {"Content-Type": "application/x-tar"})
    answer = connection.getresponse()
    data = answer.read()
    assert answer.status == 200, data
    connection.close()
    return data


def packed(files):
    """A tar of `files`: what is in them by where they go. A text is where a link leads to."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            if isinstance(data, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, data
                archive.addfile(entry)
                continue
            entry.size, entry.mode = len(data), 0o755 if data.startswith(b"#!") else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return tar.getvalue()


def make_image(own, name, files, tars=(), config=None):
    """`files[path]` are bytes, a text (a link), or a function of the bytes that sandboxkit/base has there.
    `config` is the image's, as the Engine API spells it."""
    container = own.call("POST", "/containers/create", {"Image": IMAGE, "Cmd": ["true"]})["Id"]
    try:
        for each in tars:
            with open(each, "rb") as tar:
                archive_call(own, "PUT", container, "", tar)
        archive_call(own, "PUT", container, "", packed({
            path: data(read_file(own, container, path)) if callable(data) else data
            for path, data in files.items()}))
        own.call("POST", f"/commit?container={container}&repo={name}&tag=latest", config or {})
    finally:
        own.call("DELETE", f"/containers/{container}?force=1&v=1")
    return name


def read_file(own, container, path):
    with tarfile.open(fileobj=io.BytesIO(archive_call(own, "GET", container, path))) as archive:
        return archive.extractfile(archive.getmembers()[0]).read()


def make_tools_image(own, certificate):
    """Real tools, and trust in the outside's certificate as update-ca-certificates would make it."""
    script = pathlib.Path(__file__).resolve().parent / "build-tools"
    tools = run_where_it_began(str(script)).strip()  # Debian's packages are not on the test's internet.
    trusted = pathlib.Path(certificate).read_bytes()
    return make_image(own, TOOLS, {BUNDLE: lambda bundle: bundle + trusted}, tars=[tools])
