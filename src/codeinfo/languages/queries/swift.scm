(comment) @comment
(multiline_comment) @comment
(line_str_text) @string
(multi_line_str_text) @string
(raw_str_part) @string
(raw_str_end_part) @string

(class_declaration declaration_kind: "class" name: (_) @name) @class
(class_declaration declaration_kind: "actor" name: (_) @name) @class
(class_declaration declaration_kind: "struct" name: (_) @name) @struct
(class_declaration declaration_kind: "enum" name: (_) @name) @enum
(class_declaration declaration_kind: "extension" name: (_) @name) @extension
(protocol_declaration name: (_) @name) @protocol
(enum_entry name: (simple_identifier) @name) @enum_member
(typealias_declaration . (modifiers)? . name: (type_identifier) @name) @type
(associatedtype_declaration "associatedtype" . name: (_) @name) @type
(function_declaration name: (simple_identifier) @name) @function
(protocol_function_declaration name: (simple_identifier) @name) @method
(init_declaration "init" @name) @method
(deinit_declaration "deinit" @name) @method
(subscript_declaration "subscript" @name) @method
(source_file (property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @property)
(class_body (property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @property)
(enum_class_body (property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @property)
(protocol_property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @property

(import_declaration) @import

(parameter name: (simple_identifier) @bind . ":" . (_) @bind.type)
(parameter name: (simple_identifier) @bind . ":" . (parameter_modifiers) . (_) @bind.type)
(property_declaration name: (pattern bound_identifier: (simple_identifier) @bind)
  (type_annotation ":" . (_) @bind.type))
(property_declaration name: (pattern bound_identifier: (simple_identifier) @bind) value: (_) @bind.value)
(statements (property_declaration name: (pattern bound_identifier: (simple_identifier) @bind)
  (type_annotation ":" . (_) @bind.type))) @bind.in
(statements (property_declaration name: (pattern bound_identifier: (simple_identifier) @bind) value: (_) @bind.value)) @bind.in
(statements (guard_statement bound_identifier: (simple_identifier) @bind)) @bind.in
(statements (guard_statement bound_identifier: (simple_identifier) @bind . "=" . (_) @bind.value)) @bind.in
(for_statement item: (pattern bound_identifier: (simple_identifier) @bind) collection: (_) @bind.each) @bind.in
(if_statement bound_identifier: (simple_identifier) @bind) @bind.in
(if_statement bound_identifier: (simple_identifier) @bind . "=" . (_) @bind.value) @bind.in
(function_declaration [(user_type) (optional_type) (existential_type) (opaque_type) (array_type)] @returns)
((call_expression . [(simple_identifier) (navigation_expression target: (_) @own)] (call_suffix (lambda_literal
  type: (lambda_function_type (lambda_function_type_parameters (lambda_parameter name: (simple_identifier) @bind)))) @bind.in))
  (#not-eq? @own @bind))
((call_expression . [(simple_identifier) (navigation_expression target: (_) @own)] (call_suffix (lambda_literal
  type: (lambda_function_type (lambda_function_type_parameters (lambda_parameter name: (simple_identifier) @bind)))) @bind.in))
  (#eq? @own @bind))
(switch_entry (switch_pattern (pattern bound_identifier: (simple_identifier) @bind))) @bind.in
(switch_entry (switch_pattern (pattern (pattern bound_identifier: (simple_identifier) @bind)))) @bind.in
(switch_entry (switch_pattern (pattern (value_binding_pattern) (pattern . (simple_identifier) @bind .)))) @bind.in
(if_statement (value_binding_pattern) (pattern . (simple_identifier) @bind .)) @bind.in
; Naming the guard_statement would take a third of the time in which all of these patterns are compiled.
(statements (_ "guard" (value_binding_pattern) (pattern . (simple_identifier) @bind .))) @bind.in
(for_statement item: (pattern (pattern . (simple_identifier) @bind .))) @bind.in
(statements (property_declaration name: (pattern (pattern . (simple_identifier) @bind .)))) @bind.in
(catch_block error: (pattern bound_identifier: (simple_identifier) @bind)) @bind.in
(value_argument_label (simple_identifier) @key)
(parameter external_name: (simple_identifier) @key)
