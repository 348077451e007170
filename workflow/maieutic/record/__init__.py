"""A finished run for other programs and archives: exports, a crate with checksums, verification of received runs."""
