"""Writes the Parquet files of ``sample_tables/``: the rows of an invented shop, the same ones on every machine.

    python tests/sample_tables/generate.py

Every random number is SplitMix64 over a counter, computed by Arrow kernels on unsigned 64-bit integers: no generator
of a library is used, whose numbers another release may change.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeevolve.avro.arrow import arrow_schema
from lakeevolve.avro.parse import parse

ROOT = Path(__file__).resolve().parents[2] / "sample_tables"
VERSIONS = (1, 2, 3)

#: Rows per version, and the days between which they were written.
ORDERS = {1: 20_000, 2: 18_000, 3: 16_000}
CUSTOMERS = {1: 5_000, 2: 4_000, 3: 3_500}
PERIODS = {
    1: (date(2024, 1, 2), date(2024, 11, 30)),
    2: (date(2024, 12, 1), date(2025, 9, 30)),
    3: (date(2025, 10, 1), date(2026, 6, 30)),
}

#: country: currency, units of it for 1000 EUR, house number first, streets, given names, family names
COUNTRIES = {
    "DE": (
        "EUR",
        1000,
        False,
        ["Lindenstraße", "Am Mühlbach", "Königsallee", "Große Bleichen"],
        ["Jürgen", "Anneliese", "Björn", "Käthe", "Leon", "Mia"],
        ["Müller", "Weiß", "Schröder", "Groß", "Vogel", "Kaya"],
    ),
    "FR": (
        "EUR",
        1000,
        True,
        ["rue de l'Église", "quai Saint-Exupéry", "boulevard Voltaire", "allée des Chênes"],
        ["Zoé", "François", "Anaïs", "Loïc", "Chloé", "Benoît"],
        ["Lefèvre", "Garçon", "Noël", "d'Aubigné", "Petit", "Béranger"],
    ),
    "GB": (
        "GBP",
        860,
        True,
        ["High Street", "St John's Road", "Mill Lane", "The Crescent"],
        ["Olivia", "Alfie", "Niamh", "Rhys", "Isla", "Owen"],
        ["O'Neill", "Smith", "Llewellyn", "McKay", "Patel", "Brown"],
    ),
    "US": (
        "USD",
        1090,
        True,
        ["Main St", "Cañon Blvd", "N 5th Ave", "Martin Luther King Jr Dr"],
        ["José", "Emma", "Noah", "Xóchitl", "Ava", "Liam"],
        ["Núñez", "Johnson", "Nguyen", "Davis", "Peña", "Lee"],
    ),
    "JP": (
        "JPY",
        158000,
        False,
        ["丸の内一丁目", "道頓堀", "四条通", "大通西"],
        ["花子", "太郎", "結衣", "蓮", "陽菜", "樹"],
        ["佐藤", "鈴木", "高橋", "渡邉", "山本", "齋藤"],
    ),
    "PL": (
        "PLN",
        4310,
        False,
        ["ul. Żurawia", "ul. Świętojańska", "al. Jana Pawła II", "ul. Łąkowa"],
        ["Łukasz", "Małgorzata", "Grażyna", "Paweł", "Zofia", "Stanisław"],
        ["Wójcik", "Dąbrowski", "Zieliński", "Łoś", "Nowak", "Kamiński"],
    ),
    "BR": (
        "BRL",
        6120,
        False,
        ["Rua São Bento", "Avenida Getúlio Vargas", "Praça da Sé", "Rua das Laranjeiras"],
        ["João", "Conceição", "Luís", "Antônia", "Inês", "Caetano"],
        ["Gonçalves", "da Silva", "Araújo", "Magalhães", "Brandão", "Souza"],
    ),
    "SE": (
        "SEK",
        11350,
        False,
        ["Storgatan", "Södra vägen", "Ängsgatan", "Åkerbyvägen"],
        ["Åsa", "Göran", "Märta", "Örjan", "Elsa", "Nils"],
        ["Åkerlund", "Sjöström", "Björk", "Öberg", "Lind", "Holm"],
    ),
}

#: Telephone prefix and language by country, in the order of COUNTRIES.
PREFIXES = ["+49", "+33", "+44", "+1", "+81", "+48", "+55", "+46"]
LANGUAGES = ["de", "fr", "en-GB", "en-US", "ja", "pl", "pt-BR", "sv"]

#: country, city, region, postal code before the digits, number of digits, after them
PLACES = [
    ("DE", "Berlin", "Berlin", "10", 3, ""),
    ("DE", "München", "Bayern", "80", 3, ""),
    ("DE", "Köln", "Nordrhein-Westfalen", "50", 3, ""),
    ("DE", "Lübeck", "Schleswig-Holstein", "235", 2, ""),
    ("FR", "Paris", "Île-de-France", "750", 2, ""),
    ("FR", "Besançon", "Bourgogne-Franche-Comté", "25", 3, ""),
    ("FR", "Nîmes", "Occitanie", "30", 3, ""),
    ("GB", "London", "England", "SW1A ", 1, "AA"),
    ("GB", "Cardiff", "Wales", "CF10 ", 1, "EP"),
    ("GB", "Edinburgh", "Scotland", "EH1 ", 1, "YZ"),
    ("US", "Seattle", "WA", "98", 3, ""),
    ("US", "San José", "CA", "95", 3, ""),
    ("US", "New York", "NY", "10", 3, ""),
    ("US", "Boston", "MA", "02", 3, ""),
    ("JP", "東京", "東京都", "100-", 4, ""),
    ("JP", "京都", "京都府", "600-", 4, ""),
    ("JP", "札幌", "北海道", "060-", 4, ""),
    ("PL", "Łódź", "łódzkie", "90-", 3, ""),
    ("PL", "Kraków", "małopolskie", "30-", 3, ""),
    ("BR", "São Paulo", "SP", "01310-", 3, ""),
    ("BR", "Florianópolis", "SC", "88010-", 3, ""),
    ("SE", "Malmö", "Skåne", "211 ", 2, ""),
    ("SE", "Göteborg", "Västra Götaland", "411 ", 2, ""),
    ("SE", "Umeå", "Västerbotten", "903 ", 2, ""),
]

#: article number, category, cents (EUR), grams
PRODUCTS = [
    ("TEA-0101", "tea", 690, 110),
    ("TEA-0102", "tea", 1250, 110),
    ("TEA-0140", "tea", 2990, 60),
    ("COF-0201", "coffee", 890, 270),
    ("COF-0202", "coffee", 1650, 520),
    ("COF-0290", "coffee", 2790, 1050),
    ("CUP-1001", "tableware", 1490, 340),
    ("CUP-1002", "tableware", 1990, 390),
    ("POT-1100", "tableware", 4950, 1240),
    ("POT-1101", "tableware", 8900, 1480),
    ("KET-1200", "appliance", 7900, 1650),
    ("GRD-1300", "appliance", 14900, 2900),
    ("ESP-1400", "appliance", 64900, 11800),
    ("FLT-1500", "supplies", 450, 95),
    ("FLT-1501", "supplies", 790, 160),
    ("CLN-1600", "supplies", 1190, 480),
    ("CHO-2001", "sweets", 390, 105),
    ("CHO-2002", "sweets", 1450, 420),
    ("HON-2100", "sweets", 950, 640),
    ("BIS-2200", "sweets", 550, 260),
    ("BOK-3001", "books", 2400, 610),
    ("BOK-3002", "books", 3900, 980),
    ("GFT-9000", None, 2500, 10),
    ("GFT-9001", None, 10000, 10),
]

NOTES = [
    "Bitte beim Nachbarn abgeben",
    "Sonnez deux fois, s'il vous plaît",
    "leave with the concierge",
    "置き配でお願いします",
    "Proszę dzwonić przed dostawą",
    "não deixar na portaria",
    "ring the bell 🔔",
    "Hälsa hunden 🐕 först",
    "2nd floor, left",
    "",
    "It's a \"surprise\"; don't call\nplease",
    "🎁",
]

U64 = pa.uint64()


class Draw:
    """A line of random columns: each call takes the next stream, so that columns are independent of each other."""

    def __init__(self, name: str, rows: int) -> None:
        self.name = name
        self.rows = rows
        self.calls = 0

    def bits(self, rows: int | None = None) -> pa.Array:
        """64 random bits per row (SplitMix64 over the row number, seeded by name and call)."""
        self.calls += 1
        seed = zlib.crc32(f"{self.name}/{self.calls}".encode()) << 32
        at = pa.array(range(1, (self.rows if rows is None else rows) + 1), U64)
        z = pc.add(pc.multiply(at, _u64(0x9E3779B97F4A7C15)), _u64(seed))
        z = pc.multiply(pc.bit_wise_xor(z, pc.shift_right(z, _u64(30))), _u64(0xBF58476D1CE4E5B9))
        z = pc.multiply(pc.bit_wise_xor(z, pc.shift_right(z, _u64(27))), _u64(0x94D049BB133111EB))
        return pc.bit_wise_xor(z, pc.shift_right(z, _u64(31)))

    def below(self, limit: int, rows: int | None = None) -> pa.Array:
        """Integers from 0 up to *limit*, as int64."""
        return modulo(pc.shift_right(self.bits(rows), _u64(1)).cast(pa.int64()), limit)

    def chance(self, percent: int, rows: int | None = None) -> pa.Array:
        return pc.less(self.below(100, rows), percent)

    def pick(self, values: Sequence[object], rows: int | None = None, type_: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, type_).take(self.below(len(values), rows))

    def fixed(self, size: int) -> pa.Array:
        """Random bytes of a fixed size, a multiple of 8 or less than that."""
        words = -(-size // 8)
        data = self.bits(self.rows * words).buffers()[1]
        whole = pa.Array.from_buffers(pa.binary(8 * words), self.rows, [None, data])
        return pc.binary_slice(whole, 0, size).cast(pa.binary(size)) if size % 8 else whole

    def hex(self, digits: int) -> pa.Array:
        """Random hexadecimal text, at most 32 digits."""
        text = self.bits(self.rows * 2).buffers()[1].to_pybytes().hex()
        return pc.utf8_slice_codeunits(strings(text, 32, self.rows), 0, digits)


def _u64(value: int) -> pa.Scalar:
    return pa.scalar(value, U64)


def modulo(values: pa.Array, limit: int) -> pa.Array:
    return pc.subtract(values, pc.multiply(pc.divide(values, limit), limit))


def strings(text: str, width: int, rows: int) -> pa.Array:
    """ASCII text cut into pieces of one width."""
    ends = pa.array(range(0, (rows + 1) * width, width), pa.int32())
    return pa.Array.from_buffers(pa.string(), rows, [None, ends.buffers()[1], pa.py_buffer(text.encode())])


def join(*pieces: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, "")


def where(mask: pa.Array, values: pa.Array) -> pa.Array:
    """The values where the mask holds, null elsewhere."""
    return pc.if_else(mask, values, pa.scalar(None, values.type))


def decimal(cents: pa.Array, precision: int) -> pa.Array:
    """An amount in cents as a decimal of scale 2, by giving the unscaled integers their scale."""
    return cents.cast(pa.decimal128(19, 0)).view(pa.decimal128(precision, 2))


def offsets(lengths: pa.Array) -> pa.Array:
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


def owners(lengths: pa.Array) -> pa.Array:
    """For each item of the lists with these lengths the number of its row."""
    rows = pa.array(range(len(lengths)), pa.int64())
    longest = pc.max(lengths).as_py() or 0
    turns = [rows.filter(pc.greater(lengths, turn)) for turn in range(longest)]
    return pc.take(pa.concat_arrays(turns), pc.sort_indices(pa.concat_arrays(turns)))


def positions(lengths: pa.Array, owner: pa.Array) -> pa.Array:
    """For each item its position within its list."""
    starts = offsets(lengths).cast(pa.int64()).slice(0, len(lengths))
    return pc.subtract(pa.array(range(len(owner)), pa.int64()), starts.take(owner))


def sums(lengths: pa.Array, values: pa.Array) -> pa.Array:
    """The sum of each list's values."""
    running = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(values.cast(pa.int64()))])
    ends = offsets(lengths)
    return pc.subtract(running.take(ends.slice(1)), running.take(ends.slice(0, len(lengths))))


def struct(columns: dict[str, pa.Array], mask: pa.Array | None = None) -> pa.Array:
    """A struct; where the mask holds it is null."""
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns), mask=mask)


def moments(draw: Draw, version: int, step: int) -> pa.Array:
    """Rising instants over the version's period in microseconds, each a multiple of *step*."""
    begin, end = (int(datetime(d.year, d.month, d.day, tzinfo=UTC).timestamp()) * 1_000_000 for d in PERIODS[version])
    each = (end - begin) // draw.rows
    raw = pc.add(pc.multiply(pa.array(range(draw.rows), pa.int64()), each), pc.add(draw.below(each), begin))
    return pc.multiply(pc.divide(raw, step), step).cast(pa.timestamp("us", "UTC"))


def places(draw: Draw, rows: int | None = None) -> tuple[pa.Array, dict[str, pa.Array], pa.Array]:
    """The number of the country, the columns street, city, zip and country, and the region."""
    names = list(COUNTRIES)
    place = draw.below(len(PLACES), rows)
    country = pa.array([names.index(p[0]) for p in PLACES], pa.int64()).take(place)
    streets = [street for code in names for street in COUNTRIES[code][3]]
    street = pa.array(streets).take(pc.add(pc.multiply(country, 4), draw.below(4, rows)))
    number = pc.add(draw.below(180, rows), 1).cast(pa.string())
    first = pa.array([COUNTRIES[code][2] for code in names]).take(country)
    digits = pc.utf8_lpad(draw.below(10_000, rows).cast(pa.string()), 4, "0")
    count = pa.array([p[4] - 1 for p in PLACES], pa.int32()).take(place)
    cut = pc.choose(count, *(pc.utf8_slice_codeunits(digits, 0, stop) for stop in (1, 2, 3, 4)))
    columns = {
        "street": pc.if_else(first, join(number, pa.scalar(" "), street), join(street, pa.scalar(" "), number)),
        "city": pa.array([p[1] for p in PLACES]).take(place),
        "zip": join(pa.array([p[3] for p in PLACES]).take(place), cut, pa.array([p[5] for p in PLACES]).take(place)),
        "country": pa.array(names).take(country),
    }
    return country, columns, pa.array([p[2] for p in PLACES]).take(place)


def orders(version: int) -> pa.Table:
    """The orders written while the table had this version of its schema."""
    draw = Draw(f"orders-{version}", ORDERS[version])
    known = sum(CUSTOMERS[v] for v in VERSIONS if v <= version)
    number = pa.array(range(draw.rows), pa.int64())
    country, address, region = places(draw)
    address["po_box"] = where(draw.chance(4), join("PO ", pc.add(draw.below(900), 100).cast(pa.string())))
    if version >= 3:
        known_region = where(draw.chance(85), region)
        address = {k: address[k] for k in ("street", "city", "zip")} | {"region": known_region} | address

    # Orders of the first version that came over from the old shop have no line items at all.
    unknown = draw.chance(6 if version == 1 else 0)
    lengths = pc.if_else(unknown, 0, draw.pick([0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 7], type_=pa.int64()))
    owner = owners(lengths)
    product = draw.below(len(PRODUCTS), len(owner))
    quantity = draw.pick([1, 1, 1, 1, 2, 2, 3, 6], len(owner), pa.int32())
    rate = pa.array([c[1] for c in COUNTRIES.values()], pa.int64()).take(country)
    price = pa.array([p[2] for p in PRODUCTS], pa.int64()).take(product)
    price = pc.divide(pc.multiply(price, rate.take(owner)), 1000)
    line = {
        "sku": pa.array([p[0] for p in PRODUCTS]).take(product),
        "qty" if version < 3 else "quantity": quantity,
        "unit_price": decimal(price, 9),
        "gift_wrap": draw.chance(8, len(owner)),
    }
    if version >= 3:
        line["category"] = pa.array([p[1] for p in PRODUCTS]).take(product)
    lines = pa.ListArray.from_arrays(offsets(lengths), struct(line), mask=unknown)

    fee_count = draw.pick([0, 1, 1, 1, 2], type_=pa.int64())
    fee_owner = owners(fee_count)
    fee = draw.pick([390, 490, 990, 1490, 2500], len(fee_owner), pa.int64())
    fee = pc.divide(pc.multiply(fee, rate.take(fee_owner)), 1000)
    fee_kind = modulo(pc.add(positions(fee_count, fee_owner), draw.below(3).take(fee_owner)), 3)
    fees = pa.MapArray.from_arrays(
        offsets(fee_count),
        pa.array(["shipping", "express", "customs"]).take(fee_kind),
        struct(
            {
                "amount": pc.divide(fee.cast(pa.float64()), 100.0).cast(pa.float32()),
                "days": draw.pick([7, 14, 30], len(fee_owner), pa.int32()),
            }
        ),
    )

    tag_count = draw.pick([0, 0, 1, 2, 3], type_=pa.int64())
    tag_owner = owners(tag_count)
    tag = modulo(pc.add(positions(tag_count, tag_owner), draw.below(4).take(tag_owner)), 4)
    attributes = pa.MapArray.from_arrays(
        offsets(tag_count),
        pa.array(["source", "campaign", "test", "größe"]).take(tag),
        draw.pick(["newsletter", "spring-25", "B", "search", "", "été", "L"], len(tag_owner)),
    )

    discount = draw.pick([0] * 12 + [5, 10, 15, 20], type_=pa.int32())
    goods = pc.if_else(unknown, pc.add(draw.below(20_000), 500), sums(lengths, pc.multiply(price, quantity)))
    goods = pc.divide(pc.multiply(goods, pc.subtract(100, discount)), 100)
    grams = sums(lengths, pc.multiply(pa.array([p[3] for p in PRODUCTS], pa.int64()).take(product), quantity))
    paid = draw.below(10)
    card = struct(
        {
            "brand": draw.pick(["VISA", "MASTERCARD", "AMEX", "JCB"]),
            "last4": pc.utf8_lpad(draw.below(10_000).cast(pa.string()), 4, "0").cast(pa.binary()).cast(pa.binary(4)),
        },
        pc.invert(pc.less(paid, 7)),
    )
    invoice = struct({"due_days": draw.pick([14, 30, 60], type_=pa.int32())}, pc.invert(pc.equal(paid, 7)))
    placed = moments(draw, version, 1000)
    columns = {
        "order_id": uuids(draw),
        "customer_id": pc.add(draw.below(known), 100_000),
        "status": draw.pick(["PLACED", "PAID", "PAID", "ON_HOLD", *["SHIPPED"] * 14, "CANCELLED"]),
        "placed_at": placed,
        "pickup_time": where(
            draw.chance(15), pc.multiply(pc.add(draw.below(40), 32), 900_000_000).cast(pa.time64("us"))
        ),
        "currency": pa.array([c[0] for c in COUNTRIES.values()]).take(country),
        "total": decimal(pc.add(goods, sums(fee_count, fee)), 9),
        "items" if version < 2 else "item_count": sums(lengths, quantity).cast(pa.int32()),
        "weight_kg": pc.divide(grams.cast(pa.float64()), 1000.0).cast(pa.float32()),
        "discount_percent": discount,
        "coupon": where(draw.chance(9), join("SAVE-", draw.hex(4))),
        "address": struct(address),
        "lines": lines,
        "fees": fees,
        "attributes": attributes,
        "payment": struct({"Card": card, "Invoice": invoice}, pc.greater(paid, 7)),
        "note": where(draw.chance(12), draw.pick(NOTES)),
        "signature": where(draw.chance(3), draw.fixed(24).cast(pa.binary())),
        "checksum": draw.fixed(8),
        "legacy_code": join("A-", pc.utf8_lpad(pc.add(number, 300_000 + 100_000 * version).cast(pa.string()), 8, "0")),
        "delivery_date": where(draw.chance(70), pc.add(days(placed), draw.below(9)).cast(pa.int32()).cast(pa.date32())),
    }
    return conform(columns, "orders", version)


def customers(version: int) -> pa.Table:
    """The accounts opened while the table had this version of its schema."""
    draw = Draw(f"customers-{version}", CUSTOMERS[version])
    earlier = sum(CUSTOMERS[v] for v in VERSIONS if v < version)
    country, home, region = places(draw)
    if version >= 3:
        home["region"] = where(draw.chance(85), region)
    given, family = (
        pa.array([name for c in COUNTRIES.values() for name in c[at]]).take(
            pc.add(pc.multiply(country, 6), draw.below(6))
        )
        for at in (4, 5)
    )
    japanese = pc.equal(home["country"], "JP")
    places_count = draw.pick([0, 0, 0, 1, 2], type_=pa.int64())
    other_owner = owners(places_count)
    _, other, other_region = places(draw, len(other_owner))
    if version >= 3:
        other["region"] = where(draw.chance(85, len(other_owner)), other_region)
    phone_count = draw.pick([0, 1, 1, 2], type_=pa.int64())
    phone = draw.below(10**9, pc.sum(phone_count).as_py())
    prefix = pa.array(PREFIXES).take(country.take(owners(phone_count)))
    unasked = draw.chance(10)
    consent_count = pc.if_else(unasked, 0, draw.pick([0, 1, 2, 3], type_=pa.int64()))
    consent_owner = owners(consent_count)
    registered = moments(draw, version, 1)
    asked = pc.multiply(pc.divide(registered.cast(pa.int64()).take(consent_owner), 1000), 1000)
    consents = pa.MapArray.from_arrays(
        offsets(consent_count),
        pa.array(["mail", "profiling", "phone"]).take(positions(consent_count, consent_owner)),
        struct({"granted": draw.chance(60, len(consent_owner)), "at": asked.cast(pa.timestamp("us", "UTC"))}),
        mask=unasked,
    )
    number = pc.add(pa.array(range(draw.rows), pa.int64()), 100_000 + earlier)
    columns = {
        "customer_id": number,
        "name": pc.if_else(japanese, join(family, pa.scalar(" "), given), join(given, pa.scalar(" "), family)),
        "email": where(draw.chance(93), join("c", number.cast(pa.string()), "@example.org")),
        "language": where(draw.chance(80), pa.array(LANGUAGES).take(country)),
        "segment": draw.pick([*["PRIVATE"] * 15, "BUSINESS", "BUSINESS", "EMPLOYEE", "TEST"]),
        "birth_date": where(draw.chance(70), pc.subtract(draw.below(24_000), 8_000).cast(pa.int32()).cast(pa.date32())),
        "registered_at": registered,
        "home": struct(home),
        "deliveries": pa.ListArray.from_arrays(offsets(places_count), struct(other)),
        "phones": pa.ListArray.from_arrays(
            offsets(phone_count), join(prefix, pc.utf8_lpad(phone.cast(pa.string()), 9, "0"))
        ),
        "consents": consents,
        "credit_limit": where(draw.chance(30), decimal(pc.multiply(draw.below(200), 5_000), 8)),
        "visits" if version < 2 else "visit_count": draw.below(400).cast(pa.int32()),
        "rating": where(
            draw.chance(45), pc.divide(pc.add(draw.below(401), 100).cast(pa.float32()), pa.scalar(100, pa.float32()))
        ),
        "loyalty_points": pc.multiply(draw.below(2_000), 5).cast(pa.int32()),
        "device": where(draw.chance(35), draw.fixed(6)),
        "avatar": where(draw.chance(5), draw.fixed(48).cast(pa.binary())),
    }
    return conform(columns, "customers", version)


def uuids(draw: Draw) -> pa.Array:
    """Random UUIDs (RFC 9562, version 4) as text."""
    digits = draw.hex(32)
    first, second, third, fourth, fifth = (
        pc.utf8_slice_codeunits(digits, a, b) for a, b in ((0, 8), (8, 12), (13, 16), (17, 20), (20, 32))
    )
    dash = pa.scalar("-")
    return join(first, dash, second, "-4", third, dash, draw.pick(["8", "9", "a", "b"]), fourth, dash, fifth)


def days(instants: pa.Array) -> pa.Array:
    return pc.divide(instants.cast(pa.int64()), 86_400_000_000)


def conform(columns: dict[str, pa.Array], table: str, version: int) -> pa.Table:
    """The columns that this version has, in its order and in the canonical layout."""
    schema = arrow_schema(parse((ROOT / table / f"v{version}.avsc").read_bytes()))
    return pa.table([columns[name] for name in schema.names], schema.names).cast(schema)


def write(folder: Path = ROOT) -> list[Path]:
    """Write every file and return the paths."""
    written = []
    for table, make in (("orders", orders), ("customers", customers)):
        for version in VERSIONS:
            path = folder / table / f"v{version}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(make(version), path, compression="zstd", compression_level=15, row_group_size=4_096)
            written.append(path)
    return written


if __name__ == "__main__":
    for file in write():
        sys.stdout.write(f"{file.relative_to(ROOT.parent)}  {file.stat().st_size:,} bytes\n")
