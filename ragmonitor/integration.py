"""What an integration of a framework is made of: the recorder, its runs, and readers of values.

An application needs none of these names.
"""

# ruff: noqa: PLC0414 - `as` says that integrations import it from here

from ragmonitor.capture import streams
from ragmonitor.capture.assembly import Translator as Translator
from ragmonitor.capture.assembly import is_most_of as is_most_of
from ragmonitor.capture.coercion import chunk_in as chunk_in
from ragmonitor.capture.coercion import error_text as error_text
from ragmonitor.capture.coercion import finish_reason_of as finish_reason_of
from ragmonitor.capture.coercion import json_of as json_of
from ragmonitor.capture.coercion import member_in as member_in
from ragmonitor.capture.coercion import usage_of as usage_of
from ragmonitor.capture.conversations import ANSWER_KEYS as ANSWER_KEYS
from ragmonitor.capture.conversations import answer_in as answer_in
from ragmonitor.capture.conversations import calls_tools as calls_tools
from ragmonitor.capture.conversations import content_text as content_text
from ragmonitor.capture.conversations import holds as holds
from ragmonitor.capture.conversations import message_of as message_of
from ragmonitor.capture.conversations import parsed_in as parsed_in
from ragmonitor.capture.conversations import part_text as part_text
from ragmonitor.capture.conversations import question_in as question_in
from ragmonitor.capture.conversations import values_in as values_in
from ragmonitor.capture.documents import KeptDocuments as KeptDocuments
from ragmonitor.capture.documents import documents_in as documents_in
from ragmonitor.capture.interaction_labels import labels_of as labels_of
from ragmonitor.capture.plain import InteractionRecorder as InteractionRecorder
from ragmonitor.capture.recorder import INTERACTION_TAG as INTERACTION_TAG
from ragmonitor.capture.recorder import Recorder as Recorder
from ragmonitor.capture.runs import Root as Root
from ragmonitor.capture.runs import Run as Run
from ragmonitor.capture.runs import RunKind as RunKind
from ragmonitor.records import Generation as Generation
from ragmonitor.records import Message as Message
from ragmonitor.records import Retrieval as Retrieval
from ragmonitor.records import SpanReference as SpanReference
from ragmonitor.records import Usage as Usage
from ragmonitor.runtime.errors import MissingExtraError as MissingExtraError
from ragmonitor.runtime.forks import ForkSafeLock as ForkSafeLock
from ragmonitor.runtime.guard import record_error as record_error
from ragmonitor.runtime.guard import shielded as shielded

StreamListener = streams.Listener
read_stream = streams.read
