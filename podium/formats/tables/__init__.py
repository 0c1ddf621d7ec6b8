"""Tables in files: CSV, TSV and Parquet with a named column for the label, the query id and each feature.

An empty cell, or `nan`, is a missing feature. CSV and TSV are UTF-8 text with a header line; texts may be quoted. As
such a file has no types, query ids are integers when every one of them is written as one (`7`, not `007`), and a
feature whose cells are no numbers has categories.
"""

from podium.formats.tables.reading import read_parquet as read_parquet
from podium.formats.tables.reading import read_table as read_table
from podium.formats.tables.records import DELIMITERS as DELIMITERS
from podium.formats.tables.records import LargeCells as LargeCells
from podium.formats.tables.records import cell_numbers as cell_numbers
from podium.formats.tables.records import chunks_of as chunks_of
from podium.formats.tables.records import joined as joined
from podium.formats.tables.records import read_header as read_header
from podium.formats.tables.records import rows_of as rows_of
from podium.formats.tables.records import table_kind as table_kind
from podium.formats.tables.writing import feature_lines as feature_lines
from podium.formats.tables.writing import write_table as write_table
