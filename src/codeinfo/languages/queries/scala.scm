(comment) @comment
(block_comment) @comment
(string) @string
(interpolated_string) @string
(character_literal) @string

(package_clause name: (_) @name) @package
(package_object name: (_) @name) @object
(class_definition name: (_) @name) @class
(object_definition name: (_) @name) @object
(trait_definition name: (_) @name) @trait
(enum_definition name: (_) @name) @enum
(simple_enum_case name: (_) @name) @enum_member
(full_enum_case name: (_) @name) @enum_member
(type_definition name: (_) @name) @type
(function_definition name: (_) @name) @function
(function_declaration name: (_) @name) @function
(given_definition name: (_) @name) @constant
(val_definition pattern: (identifier) @name) @constant
(val_definition pattern: (identifiers (identifier) @name)) @constant
(val_declaration name: (_) @name) @constant
(var_definition pattern: (identifier) @name) @variable
(var_declaration name: (_) @name) @variable

(import_declaration) @import
(export_declaration) @import

(parameter name: (identifier) @bind type: (_) @bind.type)
(class_parameter name: (identifier) @bind type: (_) @bind.type)
(class_definition (class_parameters (class_parameter name: (identifier) @bind type: (_) @bind.type))) @bind.in
(_ (val_definition pattern: (identifier) @bind type: (_) @bind.type)) @bind.in
(_ (val_definition pattern: (identifier) @bind !type value: (_) @bind.value)) @bind.in
(enumerator . (identifier) @bind)
(lambda_expression parameters: (identifier) @bind) @bind.in
((case_clause pattern: (identifier) @bind) @bind.in (#match? @bind "^[a-z]"))
((case_clause pattern: (_ pattern: (identifier) @bind)) @bind.in (#match? @bind "^[a-z]"))
((case_clause pattern: (tuple_pattern (identifier) @bind)) @bind.in (#match? @bind "^[a-z]"))
(case_clause pattern: (capture_pattern name: (identifier) @bind)) @bind.in
(function_definition return_type: (_) @returns)
