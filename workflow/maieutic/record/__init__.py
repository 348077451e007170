"""Finished runs for other programs and archives: exports, crates with checksums, verification of received runs."""
