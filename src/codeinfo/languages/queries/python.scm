(comment) @comment
(module (expression_statement . (string) @doc .))
(block (expression_statement . (string) @doc .))
(string_content) @string

(class_definition name: (identifier) @name) @class
(function_definition name: (identifier) @name) @function
(type_alias_statement left: (type (identifier) @name)) @type
(assignment left: (identifier) @name) @variable
(assignment left: (pattern_list (identifier) @name)) @variable

(import_statement) @import
(import_from_statement) @import
(future_import_statement) @import
