"""Two strings compared, as OpenAI names the comparisons."""


def string_check(text: str, reference: str, operation: str) -> float:
    """1.0 where the comparison holds. like: ``text`` contains ``reference``; ilike: in whatever case."""
    holds = {
        "eq": text == reference,
        "ne": text != reference,
        "like": reference in text,
        "ilike": reference.casefold() in text.casefold(),
    }[operation]
    return float(holds)
