"""What the registry answers when it refuses: the statuses and error codes of the Confluent REST API."""

from __future__ import annotations


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def no_subject(subject: str) -> Refused:
    return Refused(404, 40401, f"Subject '{subject}' not found.")


def no_version(version: object) -> Refused:
    return Refused(404, 40402, f"Version {version} not found.")


def no_schema(id_: object = "") -> Refused:
    return Refused(404, 40403, f"Schema {id_} not found".replace("  ", " "))


def subject_deleted(subject: str) -> Refused:
    return Refused(404, 40404, f"Subject '{subject}' is soft-deleted; permanent=true deletes it for good")


def subject_not_deleted(subject: str) -> Refused:
    return Refused(404, 40405, f"Subject '{subject}' has to be soft-deleted before it is deleted for good")


def version_deleted(subject: str, version: int) -> Refused:
    return Refused(
        404, 40406, f"Subject '{subject}' version {version} is soft-deleted; permanent=true deletes it for good"
    )


def version_not_deleted(subject: str, version: int) -> Refused:
    return Refused(404, 40407, f"Subject '{subject}' version {version} has to be soft-deleted first")


def no_level(subject: str) -> Refused:
    return Refused(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> Refused:
    return Refused(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, messages: list[str]) -> Refused:
    details = ", ".join(messages)
    return Refused(409, 40901, f"The schema is incompatible with an earlier one of subject '{subject}': [{details}]")


def invalid_schema(why: str) -> Refused:
    return Refused(422, 42201, f"Invalid schema: {why}")


def invalid_version(version: object) -> Refused:
    return Refused(422, 42202, f"The version '{version}' is neither a number from 1 to 2147483647 nor latest")


def invalid_level(level: object) -> Refused:
    return Refused(422, 42203, f"'{level}' is no compatibility level")


def invalid_mode(mode: object) -> Refused:
    return Refused(422, 42204, f"'{mode}' is no mode; known are READWRITE, READONLY and IMPORT")


def not_permitted(why: str) -> Refused:
    return Refused(422, 42205, why)


def referred_to(subject: str, version: int, by: str) -> Refused:
    return Refused(422, 42206, f"Subject '{subject}' version {version} is referred to by {by}")


def id_differs(why: str) -> Refused:
    return Refused(422, 42207, why)


def invalid_subject(subject: str) -> Refused:
    return Refused(422, 42208, f"The subject '{subject}' has no name that can be kept")


def too_large(size: int) -> Refused:
    return Refused(422, 42209, f"The schema has {size} bytes, which is too large")


def bad_request(why: str) -> Refused:
    return Refused(400, 400, why)
