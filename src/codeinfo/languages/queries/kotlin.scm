(line_comment) @comment
(block_comment) @comment
(string_content) @string
(character_literal) @string

(package_header (qualified_identifier) @name) @package
(class_declaration "interface" name: (identifier) @name) @interface
(class_declaration (modifiers (class_modifier "enum")) name: (identifier) @name) @enum
(class_declaration "class" name: (identifier) @name) @class
(object_declaration name: (identifier) @name) @object
(companion_object name: (identifier) @name) @object
(type_alias type: (identifier) @name) @type
(enum_entry . (identifier) @name) @enum_member
(function_declaration (_) @scope . "." . name: (identifier) @name) @function
(function_declaration name: (identifier) @name) @function
; What is in another block is a variable. The grammar may take the body of `class A : B by b {` for a block as well.
(source_file (property_declaration (_) @scope . "." . (variable_declaration . (identifier) @name)) @property)
(class_body (property_declaration (_) @scope . "." . (variable_declaration . (identifier) @name)) @property)
(source_file (property_declaration (variable_declaration . (identifier) @name)) @property)
(class_body (property_declaration (variable_declaration . (identifier) @name)) @property)
(enum_class_body (property_declaration (variable_declaration . (identifier) @name)) @property)
(ERROR (property_declaration (variable_declaration . (identifier) @name)) @property)
(explicit_delegation (call_expression (annotated_lambda (lambda_literal
  (property_declaration (variable_declaration . (identifier) @name)) @property))))
(class_parameter ["val" "var"] . (identifier) @name) @property

(import) @import

(parameter (identifier) @bind . (_) @bind.type)
(class_parameter (identifier) @bind . ":" . (_) @bind.type)
(property_declaration (variable_declaration (identifier) @bind . (_) @bind.type))
(value_argument . (identifier) @key . (_))
(call_expression (identifier) @key.of (value_arguments (value_argument . (identifier) @key . (_))))
((call_expression (navigation_expression (identifier) @last .) @key.of
  (value_arguments (value_argument . (identifier) @key . (_)))) (#match? @last "^[A-Z]"))
(property_declaration (variable_declaration . (identifier) @bind .) . (_) @bind.value)
(for_statement (variable_declaration (identifier) @bind)) @bind.in
(lambda_literal (lambda_parameters (variable_declaration (identifier) @bind))) @bind.in
(function_declaration (function_value_parameters) . (user_type) @returns)
