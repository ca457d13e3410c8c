(comment) @comment
(string_content) @string

(function_declaration name: (_) @name) @function
(assignment_statement (variable_list . name: (_) @name) (expression_list . value: (function_definition))) @function
(field name: (identifier) @name value: (function_definition)) @function
(chunk (assignment_statement (variable_list . name: (identifier) @name)) @variable)
(chunk (variable_declaration (assignment_statement (variable_list . name: (identifier) @name)) @variable))
(assignment_statement (variable_list . name: (dot_index_expression) @name)) @variable

(parameters name: (identifier) @bind)
(variable_declaration (assignment_statement (variable_list . name: (identifier) @bind) (expression_list . value: (_) @bind.value)))
(for_generic_clause (variable_list name: (identifier) @bind))
(for_numeric_clause name: (identifier) @bind)
