"""Pictures of a dataset's records: fetched once, verified, and stored under their checksums.

A picture is embedded in a Parquet file, stored beside the source file, or available at an address. Its SHA-256 is the
name of its file, so a request that names the file also pins the bytes of the picture.
"""

from __future__ import annotations

import hashlib
import io
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from maieutic.config.datasets import DatasetFile, Edition, PictureFields, SourceRecord
from maieutic.config.limits import DEFAULT_LIMITS, Limits
from maieutic.core.errors import UserError
from maieutic.core.files import MB, atomic_file, sha256_of
from maieutic.core.journal import Journal, JournalLine
from maieutic.core.progress import Progress
from maieutic.core.records import Picture, read_records, write_records
from maieutic.datasets.sources import FetchJob, demo_folder, read_source

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger(__name__)
# Formats that model servers accept; other formats are converted to PNG. An MPO file, which some phones write, is a JPEG
# file with a second picture at its end.
SUFFIX_BY_FORMAT = {"PNG": "png", "JPEG": "jpg", "MPO": "jpg", "WEBP": "webp", "GIF": "gif"}
# Formats that are decoded. Every further decoder would widen the attack surface, and one of Pillow's decoders starts
# another program.
DECODED_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
LOSSY_FORMATS = ("JPEG", "MPO")  # formats that are written as JPEG again when a picture is turned
ORIENTATION, UPRIGHT = 0x0112, 1  # EXIF tag of a picture's orientation, and its value for an upright picture
TRIES = 4
TIMEOUT = (20.0, 60.0)  # maximum wait for a connection and for the next bytes, in seconds
FETCHED_JOURNAL = ".fetched.{}.jsonl"  # journal of a dataset's fetched pictures, one line per address
UNDECODABLE = "no picture"


class PictureMissing(Exception):
    """Error for a picture that does not exist or cannot be used, so that a retry would not help.

    The message is recorded as the reason in the list of pictures, whose checksum is pinned.
    """


class PictureLocation(NamedTuple):
    """Location of one record's picture. embedded: bytes of the picture, or None if the source file does not contain it.

    record: number of the record; address: URL of the picture, or its path in the dataset's folder.
    """

    record: int
    address: str
    embedded: bytes | None


JOURNAL_FIELDS = {"file", "width", "height"}


class FetchedPicture(JournalLine):
    """Journal entry for a downloaded picture. The entry's key is the address of the picture."""

    file: str
    width: int
    height: int

    def picture(self, place: PictureLocation) -> Picture:
        """Return the entry in the list of pictures that assigns this picture to the record of `place`."""
        return Picture(
            record=place.record,
            address=place.address,
            origin="address",
            **self.model_dump(include=JOURNAL_FIELDS),
        )


class FetchPictures(FetchJob):
    """Job that fetches the pictures of one edition of a dataset."""


def fetch_pictures(*, job: FetchPictures, source: Path, demo_dir: Path, store: Path, out: Path) -> None:
    """Fetch a dataset's pictures into `store`, and write their list to `out`.

    A picture that does not exist or cannot be used is listed with the reason. Any other failure ends the job, and the
    next run resumes. Raises UserError if the list is not the pinned one, or if it must be pinned, because some pictures
    are not embedded in the source file.

    source: file of the dataset's records; demo_dir: folder of the demo's files. Paths of pictures are relative to the
    folder that contains the edition's file in `demo_dir` or `data_dir`.
    """
    name, dataset, edition = job.name, job.dataset, job.edition
    copy, pictures = dataset.file_of(name, edition), dataset.pictures
    root = demo_folder(demo_dir, copy.path) if edition == "demo" else job.data_dir
    folder = (root / copy.path).parent if root else None
    assert pictures is not None, "this job requires a dataset with pictures"
    store.mkdir(parents=True, exist_ok=True)
    places = list(picture_locations(source, pictures, dataset.format_of(edition)))
    progress = Progress(f"{name}: pictures", len(places))
    entries: list[Picture] = []
    with Journal(store / FETCHED_JOURNAL.format(name), FetchedPicture) as journal:
        for place in places:
            known = journal.answers.get(place.address) if comes_from_address(place) else None
            if known and is_intact(store / known.file):
                picture = known.picture(place)
            else:
                picture = fetch_picture(place, folder, store, job.limits)
                if comes_from_address(place) and picture.file:  # missing pictures may be available in a later run
                    journal.append(FetchedPicture(key=place.address, **picture.model_dump(include=JOURNAL_FIELDS)))
            progress.step(known=known is not None)
            entries.append(picture)
    progress.log_line()
    write_records(out.with_suffix(".new"), entries)
    check_picture_list(name, edition, copy, entries, out.with_suffix(".new"))
    out.with_suffix(".new").replace(out)
    if missing := [entry for entry in entries if entry.file is None]:
        log.warning(
            "%s: %d of %d pictures are unavailable; reason for the first: %s",
            name,
            len(missing),
            len(entries),
            missing[0].why_none,
        )


def is_intact(path: Path) -> bool:
    """Return True if a picture's file exists and has the checksum in its name."""
    return path.is_file() and sha256_of(path) == path.stem


def comes_from_address(place: PictureLocation) -> bool:
    """Return True if a picture has to be downloaded."""
    return not place.embedded and place.address.startswith(("http://", "https://"))


def picture_locations(source: Path, pictures: PictureFields, form: str) -> Iterator[PictureLocation]:
    """Yield the location of each record's picture. A file with embedded pictures is read one row group at a time.

    form: format of the source file.
    """
    if form == "parquet" and pictures.embedded:
        yield from embedded_locations(source, pictures, pictures.embedded)
        return
    for number, record in enumerate(read_source(source, form)):
        yield from location_in_record(number, record, pictures, None)


def location_in_record(
    number: int, record: SourceRecord, pictures: PictureFields, data: bytes | None
) -> Iterator[PictureLocation]:
    """Yield the location of a record's picture, if the record has a picture.

    If the record should have a picture but does not, the address of the location is empty. number: number of the
    record; data: bytes of an embedded picture.
    """
    address, expected = picture_address(record, pictures), pictures.expected(record)
    if expected or (expected is None and (data or address)):
        yield PictureLocation(number, address, data)


def picture_address(record: SourceRecord, pictures: PictureFields) -> str:
    """Return the address of a record's picture, or an empty text if the record has no address."""
    return str(record.get(pictures.address) or "").strip()


def embedded_locations(source: Path, pictures: PictureFields, column: str) -> Iterator[PictureLocation]:
    """Yield the locations of pictures in a column of the hub's image type, a struct of `bytes` and `path`."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(source)
    if column not in table.schema_arrow.names:
        log.warning("%s has no column %s: its pictures are fetched from their addresses", source, column)
        yield from embedded_locations(
            source, PictureFields(address=pictures.address, where=pictures.where), pictures.address
        )
        return
    number = 0
    for group in range(table.num_row_groups):
        columns = list({column, pictures.address, *pictures.where})
        for row in table.read_row_group(group, columns=columns).to_pylist():
            cell = row[column]
            data = cell.get("bytes") if isinstance(cell, dict) else cell if isinstance(cell, bytes) else None
            yield from location_in_record(number, row, pictures, data)
            number += 1


def fetch_picture(place: PictureLocation, folder: Path | None, store: Path, limits: Limits = DEFAULT_LIMITS) -> Picture:
    """Fetch one picture into the store. Raises UserError for a failure that may not occur again in a later run.

    folder: folder of pictures that are located by a path, or None.
    """
    common = {"record": place.record, "address": place.address, "origin": picture_origin(place)}
    try:
        if not place.embedded and not place.address:
            raise PictureMissing("the record names no picture")
        data = place.embedded or (
            download_picture(place.address, limits)
            if comes_from_address(place)
            else read_local_picture(place.address, folder, limits)
        )
        data, suffix, width, height = verify_picture(data, limits)
    except PictureMissing as missing:
        return Picture(**common, file=None, why_none=str(missing))
    file = f"{hashlib.sha256(data).hexdigest()}.{suffix}"
    with atomic_file(store / file, "wb") as handle:
        handle.write(data)
    return Picture(**common, file=file, width=width, height=height)


def picture_origin(place: PictureLocation) -> Literal["embedded", "path", "address"]:
    """Return the kind of a picture's location: in the source file, in a folder, or at an address."""
    return "embedded" if place.embedded else "address" if comes_from_address(place) else "path"


def read_local_picture(path: str, folder: Path | None, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return the bytes of a picture in `folder`.

    Raises UserError if `folder` does not contain the file, and PictureMissing if the file or its path cannot be used.
    """
    if folder is None:
        raise PictureMissing("a path, and there is no folder to look in")
    try:
        file = (folder / path).resolve()
        exists = file.is_file()
    except (OSError, ValueError):  # the text is too long for a path, or contains a NUL
        raise PictureMissing("no path") from None
    if exists and file.stat().st_size > limits.picture_mb * MB:
        raise PictureMissing(f"more than {limits.picture_mb:g} MB")
    if not exists or not file.is_relative_to(folder.resolve()):
        raise UserError(
            str(folder / path),
            "the dataset's folder does not contain this picture",
            "set data_dir to a folder that contains the picture",
        )
    return file.read_bytes()


def verify_picture(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[bytes, str, int, int]:
    """Return a picture's bytes, file suffix, width and height. A format that servers do not accept becomes PNG.

    A picture whose EXIF data say that it lies on its side is turned, since some servers apply this mark and others do
    not: every tutor, and the page, get the same picture. All other pictures keep their bytes. Raises PictureMissing if
    the data are too large or not a picture.
    """
    from PIL import Image, ImageOps

    if len(data) > limits.picture_mb * MB:
        raise PictureMissing(f"more than {limits.picture_mb:g} MB")
    Image.MAX_IMAGE_PIXELS = int(limits.picture_megapixels * 1e6)
    try:
        with Image.open(io.BytesIO(data), formats=DECODED_FORMATS) as picture:
            if picture.width * picture.height > limits.picture_megapixels * 1e6:
                raise PictureMissing(f"more than {limits.picture_megapixels:g} million pixels")
            picture.load()
            size, kind = picture.size, str(picture.format)
            is_turned = picture.getexif().get(ORIENTATION, UPRIGHT) != UPRIGHT
            if is_turned or kind not in SUFFIX_BY_FORMAT:
                converted, upright = io.BytesIO(), ImageOps.exif_transpose(picture)
                kind = kind if kind in LOSSY_FORMATS else "PNG"
                if kind in LOSSY_FORMATS:
                    upright.convert("RGB").save(converted, "JPEG", quality=95)
                else:
                    on_white(upright).save(converted, "PNG")
                data, size = converted.getvalue(), upright.size
    except (PictureMissing, MemoryError):
        raise
    except Exception as error:  # decoders raise exceptions of any class on a damaged file
        log.warning("a picture cannot be decoded: %s", error)
        raise PictureMissing(UNDECODABLE) from None  # the text is constant, since the list of reasons is pinned
    return data, SUFFIX_BY_FORMAT[kind], *size


def on_white(picture: Image) -> Image:
    """Return a picture with a white background in place of transparency."""
    from PIL import Image as Pillow

    with_alpha = picture.convert("RGBA")
    ground = Pillow.new("RGBA", with_alpha.size, "white")
    ground.alpha_composite(with_alpha)
    return ground.convert("RGB")


def download_picture(url: str, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Download a picture. Raises PictureMissing if the server refuses it, and UserError if all attempts fail."""
    import requests  # imported here, since jobs that make items also load this module, but download nothing

    problem = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(0.5 * 2**attempt)
        try:
            return request_picture(url, limits)
        except requests.HTTPError as error:
            status = error.response.status_code
            if status < 500 and status not in {408, 425, 429}:
                raise PictureMissing(f"the server answers {status}") from None
            problem = f"the server answers {status}"
        except (requests.RequestException, OSError) as error:
            problem = type(error).__name__
    raise UserError(
        url,
        f"the picture was not downloaded in {TRIES} tries ({problem})",
        "run again on a machine with network access",
    )


def request_picture(url: str, limits: Limits) -> bytes:
    """Request a picture once. Raises PictureMissing if the body is too long, and ConnectionError if it ends early."""
    import requests

    with requests.get(url, stream=True, timeout=TIMEOUT) as answer:
        answer.raise_for_status()
        data = bytearray()
        for block in answer.iter_content(1 << 16):
            data += block
            if len(data) > limits.picture_mb * MB:
                raise PictureMissing(f"more than {limits.picture_mb:g} MB")
        length = answer.headers.get("Content-Length")
        if length and "Content-Encoding" not in answer.headers and len(data) != int(length):
            raise requests.ConnectionError("the body ended early")
    return bytes(data)


def check_picture_list(name: str, edition: Edition, copy: DatasetFile, entries: list[Picture], listed: Path) -> None:
    """Check a list of pictures against the registry.

    Raises UserError if the list does not have the pinned checksum, or if no checksum is pinned although some pictures
    are not embedded in the source file. entries: content of the list; listed: file of the list, removed on an error.
    """
    key = f"datasets.{name}.{edition}.pictures"
    digest = sha256_of(listed)
    if copy.pictures is not None and digest != copy.pictures:
        listed.unlink()
        fix = f"restore the pinned pictures, or check the new ones and set this key to {digest}"
        raise UserError(key, f"expected a list of pictures with sha256 {copy.pictures}, found {digest}", fix)
    if copy.pictures is None and any(entry.origin != "embedded" for entry in entries):
        listed.unlink()
        problem = "some pictures are not in the pinned file, so the list of pictures must be pinned"
        raise UserError(key, problem, f"check the pictures, then set this key to {digest}")


def picture_files(listed: Path) -> dict[int, str | None]:
    """Map the number of each record to the file of its picture, or to None if the picture is unavailable."""
    return {entry.record: entry.file for entry in read_records(listed, Picture)}
