(raw_string_content) @string

(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @namespace
(namespace_alias_definition name: (_) @name) @namespace
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @concept
