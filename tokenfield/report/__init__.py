"""Reports of runs as single HTML files that open without a network."""

from .summary import summary as summary
from .write import write_report as write_report
