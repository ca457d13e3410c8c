(comment) @comment
(interpreted_string_literal_content) @string
(raw_string_literal_content) @string
(rune_literal) @string

(package_clause (package_identifier) @name) @package
(function_declaration name: (identifier) @name) @function
(method_declaration receiver: (parameter_list (parameter_declaration type: (_) @scope))
  name: (field_identifier) @name) @method
(type_spec name: (type_identifier) @name type: (struct_type)) @struct
(type_spec name: (type_identifier) @name type: (interface_type)) @interface
(type_spec name: (type_identifier) @name) @type
(type_alias name: (type_identifier) @name) @type
(method_elem name: (field_identifier) @name) @method
(field_declaration name: (field_identifier) @name) @field
(const_spec name: (identifier) @name) @constant
(var_spec name: (identifier) @name) @variable

(import_spec) @import

(function_declaration parameters: (parameter_list (_ name: (identifier) @bind type: (_) @bind.type)))
(method_declaration parameters: (parameter_list (_ name: (identifier) @bind type: (_) @bind.type)))
(method_declaration receiver: (parameter_list (_ name: (identifier) @bind type: (_) @bind.type)))
(function_declaration result: (parameter_list (_ name: (identifier) @bind type: (_) @bind.type)))
(method_declaration result: (parameter_list (_ name: (identifier) @bind type: (_) @bind.type)))
(func_literal parameters: (parameter_list (_ name: (identifier) @bind type: (_) @bind.type))) @bind.in
(statement_list (short_var_declaration
  left: (expression_list . (identifier) @bind) right: (expression_list . (_) @bind.value))) @bind.in
(statement_list (short_var_declaration left: (expression_list (_) (identifier) @bind))) @bind.in
(if_statement initializer: (short_var_declaration
  left: (expression_list . (identifier) @bind) right: (expression_list . (_) @bind.value))) @bind.in
(if_statement initializer: (short_var_declaration left: (expression_list (_) (identifier) @bind))) @bind.in
(for_statement (for_clause initializer: (short_var_declaration left: (expression_list (identifier) @bind)))) @bind.in
(for_statement (range_clause left: (expression_list . (identifier) @bind))) @bind.in
(for_statement (range_clause left: (expression_list (_) (identifier) @bind) right: (_) @bind.each)) @bind.in
(type_switch_statement alias: (expression_list (identifier) @bind) (type_case type: (_) @bind.type) @bind.in)
(type_switch_statement alias: (expression_list (identifier) @bind) (default_case) @bind.in)
(statement_list (var_declaration (var_spec name: (identifier) @bind type: (_) @bind.type))) @bind.in
(statement_list (var_declaration (var_spec name: (identifier) @bind !type value: (expression_list . (_) @bind.value)))) @bind.in
(source_file (var_declaration (var_spec name: (identifier) @bind type: (_) @bind.type)))
(source_file (var_declaration (var_spec name: (identifier) @bind !type value: (expression_list . (_) @bind.value))))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @bind type: (_) @bind.type))))
(source_file (var_declaration (var_spec_list
  (var_spec name: (identifier) @bind !type value: (expression_list . (_) @bind.value)))))
(field_declaration name: (field_identifier) @bind type: (_) @bind.type)
(field_declaration !name type: (_) @embeds)
(interface_type (type_elem (_) @embeds))
(type_spec name: (_) type: [(type_identifier) (qualified_type) (map_type) (slice_type) (function_type)] @underlying)
(type_alias type: [(type_identifier) (qualified_type)] @embeds)
(function_declaration result: (_) @returns)
(method_declaration result: (_) @returns)
(method_elem result: (_) @returns)
(composite_literal type: [(type_identifier) (qualified_type)] @key.of
  body: (literal_value (keyed_element key: (literal_element (identifier) @key))))
(composite_literal type: [(slice_type element: (_) @key.of) (map_type value: (_) @key.of) (array_type element: (_) @key.of)]
  body: (literal_value (literal_element (literal_value (keyed_element key: (literal_element (identifier) @key))))))
(composite_literal type: (map_type value: (_) @key.of) body: (literal_value (keyed_element
  value: (literal_element (literal_value (keyed_element key: (literal_element (identifier) @key)))))))
