"""Replies of tutors to items."""

COMMANDS = {
    "Tutors": (
        "replies.generate:generate_replies",
        "replies.shards:gather_shards",
        "replies.recorded:read_replies",
        "replies.recorded:write_questions",
        "replies.parsing:parse_replies",
        "replies.reader:ask_reader",
        "replies.reader:grade_readings",
    ),
}
