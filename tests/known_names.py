"""Words that are names or values in programming languages and data formats: `constructor`, `null`, `nan`."""

NAMES = [
    "constructor", "toString", "valueOf", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
    "prototype", "length", "undefined", "null", "nan", "None", "true", "NA", "inf", "arguments", "class", "1e5", "0",
]  # fmt: skip
