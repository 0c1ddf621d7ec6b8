"""LETOR text, the common format of ranking data: `label qid:id 1:value 2:value ... #comment`, one document per line."""

from podium.formats.letor.reading import read_letor as read_letor
from podium.formats.letor.reading import read_letor_comments as read_letor_comments
from podium.formats.letor.reading import read_svmlight as read_svmlight
from podium.formats.letor.writing import write_letor as write_letor
