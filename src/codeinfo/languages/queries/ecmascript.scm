(comment) @comment
(string_fragment) @string
(regex_pattern) @string

(class_declaration name: (_) @name) @class
(variable_declarator name: (identifier) @name value: (class)) @class
(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (generator_function)]) @function
(variable_declarator name: (identifier) @name) @variable
(variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @name)) @variable
(method_definition name: (_) @name) @method
(assignment_expression left: (member_expression) @name
  right: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression left: (member_expression) @name right: (class)) @class
(assignment_expression left: (member_expression) @name) @member
(assignment_expression right: (class name: (_) @name) @class)
(arguments (function_expression name: (identifier) @name) @function)
(return_statement (function_expression name: (identifier) @name) @function)
(assignment_expression right: (function_expression name: (identifier) @name) @function)
(pair key: [(property_identifier) (string)] @name value: [(arrow_function) (function_expression)]) @method

(import_statement) @import
(export_statement source: (_)) @import
(export_statement (export_clause) @exports)
(export_statement value: (identifier) @exports)

(export_statement value: (_) @default)
(export_statement "default" declaration: (_ name: (_) @default))
(assignment_expression left: (member_expression) @exporting right: (_) @exported)
(assignment_expression left: (member_expression) @exporting right: (_ name: (_) @exported))
(assignment_expression left: (member_expression) @exporting
  right: (object (pair key: (property_identifier) @bind value: (_) @bind.value)))
(variable_declarator name: (identifier) @exported value: (assignment_expression) @exporting)
(export_statement !source (export_clause (export_specifier name: (_) @bind.value alias: (_) @bind)))

(arrow_function parameter: (identifier) @bind) @bind.in
(variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @bind) value: (_) @bind.part)
(variable_declarator name: (object_pattern (pair_pattern key: (property_identifier) @bind.key value: (identifier) @bind))
  value: (_) @bind.part)
(object_pattern (object_assignment_pattern left: (shorthand_property_identifier_pattern) @bind))
(variable_declarator name: (object_pattern (object_assignment_pattern left: (shorthand_property_identifier_pattern) @bind))
  value: (_) @bind.part)
(array_pattern (identifier) @bind)
(for_in_statement left: (identifier) @bind right: (_) @bind.each) @bind.in
(catch_clause parameter: (identifier) @bind) @bind.in
(assignment_expression left: (member_expression object: (this)) @bind right: (_) @bind.value)
(pair key: (property_identifier) @key)
(call_expression function: (member_expression) @bind.call
  arguments: (arguments (arrow_function parameter: (identifier) @bind) @bind.in))
(pair_pattern key: (property_identifier) @key)
(variable_declarator name: (object_pattern (pair_pattern key: (property_identifier) @key)) value: (identifier) @key.of)
