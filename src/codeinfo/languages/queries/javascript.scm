(field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @method
(field_definition property: (_) @name) @field

(arrow_function parameters: (formal_parameters (identifier) @bind)) @bind.in
(function_expression parameters: (formal_parameters (identifier) @bind)) @bind.in
(function_declaration parameters: (formal_parameters (identifier) @bind))
(method_definition parameters: (formal_parameters (identifier) @bind))
(function_declaration body: (statement_block (return_statement (_) @returned)))
(method_definition body: (statement_block (return_statement (_) @returned)))
(assignment_expression right: (function_expression body: (statement_block (return_statement (_) @returned))))
(assignment_expression right: (arrow_function body: (_) @returned))
(assignment_expression right: (arrow_function body: (statement_block (return_statement (_) @returned))))
(variable_declarator value: (arrow_function body: (_) @returned))
(variable_declarator value: (arrow_function body: (statement_block (return_statement (_) @returned))))
(formal_parameters (assignment_pattern left: (identifier) @bind))
(formal_parameters (rest_pattern (identifier) @bind))
(formal_parameters (object_pattern (shorthand_property_identifier_pattern) @bind))
(field_definition property: (_) @bind value: (_) @bind.value)
(statement_block (lexical_declaration (variable_declarator name: (identifier) @bind value: (_) @bind.value))) @bind.in
(program (lexical_declaration (variable_declarator name: (identifier) @bind value: (_) @bind.value)))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @bind value: (_) @bind.value))))
(variable_declaration (variable_declarator name: (identifier) @bind value: (_) @bind.value))
