"""The grammar of MAESTRO descriptions (lark), and what its tokens are called in messages."""

from __future__ import annotations

import re
from typing import Final

GRAMMAR: Final = r"""
start: item*
?item: constant | network
constant: "Constant" LABEL ":"? value ";"?
network: "Network" LABEL? LBRACE layer* RBRACE ";"?
layer: "Layer" LABEL? LBRACE member* RBRACE ";"?
?member: type | stride | dimensions | dataflow
type: "Type" ":"? LABEL ";"?
stride: "Stride" ":"? LBRACE (entry ("," | ";")?)* RBRACE ";"?
dimensions: "Dimensions" ":"? LBRACE (entry ("," | ";")?)* RBRACE ";"?
dataflow: "Dataflow" ":"? LBRACE (directive ";"?)* RBRACE ";"?
entry: DIM ":"? value
?directive: map | cluster
map: (TEMPORAL | SPATIAL) "(" value ","? value ")" ":"? DIM
cluster: "Cluster" "(" value (","? DIM)? ")"
value: term ((PLUS | MINUS) term)*
?term: NUMBER -> number | "Sz" "(" DIM ")" -> size_of | DIM -> name

TEMPORAL: "TemporalMap"
SPATIAL: "SpatialMap"
LBRACE: "{"
RBRACE: "}"
PLUS: "+"
MINUS: "-"
NUMBER: /[0-9][0-9A-Za-z_.]*/
DIM: /[A-Za-z_][A-Za-z0-9_]*'?/
LABEL: /(?:(?!\/\/|\/\*)[^\s{}();:,])+/
COMMENT: /\/\/[^\n]*/ | /\/\*(.|\n)*?\*\//
%ignore /[ \t\r\n\f]+/
%ignore COMMENT
"""

WORDS: Final = {
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "COLON": "':'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "NUMBER": "a number",
    "DIM": "a name",
    "LABEL": "a name",
    "SZ": "Sz(...)",
    "TEMPORAL": "TemporalMap",
    "SPATIAL": "SpatialMap",
    "CLUSTER": "Cluster",
    "CONSTANT": "Constant",
    "NETWORK": "Network",
    "LAYER": "Layer",
    "TYPE": "Type",
    "STRIDE": "Stride",
    "DIMENSIONS": "Dimensions",
    "DATAFLOW": "Dataflow",
    "$END": "the end of the file",
}
"""How messages call a terminal."""
INSERTED: Final = ("RPAR", "LPAR", "COMMA", "LBRACE", "RBRACE", "NUMBER", "DIM")
"""What may be taken as forgotten, so that reading goes on after it."""
KEYWORDS: Final = (
    *("TEMPORAL", "SPATIAL", "CLUSTER", "CONSTANT", "NETWORK", "LAYER"),
    *("TYPE", "STRIDE", "DIMENSIONS", "DATAFLOW"),
)
"""Words that may have been meant."""
COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
