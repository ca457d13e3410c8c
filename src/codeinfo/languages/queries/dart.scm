(comment) @comment
(documentation_comment) @comment
(string_literal) @string

(library_name (dotted_identifier_list) @name) @package
(part_of_directive [(uri) (dotted_identifier_list)] @name) @package
(class_definition name: (identifier) @name) @class
(class_definition (mixin_application_class . (identifier) @name
  (mixin_application . (type_identifier) @base (mixins . (type_identifier) @base)))) @class
(extension_type_declaration name: (identifier) @name) @class
(mixin_declaration (mixin) . (identifier) @name) @trait
(extension_declaration name: (identifier) @name) @extension
(extension_declaration !name
  (type_identifier) @name . (type_arguments)? . (nullable_type)? . (extension_body)) @extension
(enum_declaration name: (identifier) @name) @enum
(enum_constant name: (identifier) @name) @enum_member
(type_alias (type_identifier) @name . (type_parameters)? . "=") @type
(type_alias (type_identifier) @name . (type_parameters)? . (formal_parameter_list)) @type

(program [(function_signature name: (_) @name) (getter_signature name: (_) @name) (setter_signature name: (_) @name)] @function
  . (function_body)? @body)
(lambda_expression parameters: (function_signature name: (_) @name)) @function
(_ (method_signature [
    (function_signature name: (_) @name)
    (getter_signature name: (_) @name)
    (setter_signature name: (_) @name)
    (operator_signature (binary_operator) @name)
    (constructor_signature name: (identifier) @name . parameters: (_))
    (factory_constructor_signature (identifier) @name . (formal_parameter_list))
  ]) @method . (function_body)? @body)
(declaration [
    (function_signature name: (_) @name)
    (getter_signature name: (_) @name)
    (setter_signature name: (_) @name)
    (operator_signature (binary_operator) @name)
    (constructor_signature name: (identifier) @name . parameters: (_))
    (constant_constructor_signature (identifier) @name . (formal_parameter_list))
    (redirecting_factory_constructor_signature (identifier) @name . (formal_parameter_list))
  ]) @method

(declaration (const_builtin) (static_final_declaration_list (static_final_declaration . (identifier) @name))) @constant
(declaration (static_final_declaration_list (static_final_declaration . (identifier) @name))) @field
(declaration (initialized_identifier_list (initialized_identifier . (identifier) @name))) @field
(declaration (identifier_list (identifier) @name)) @field
(representation_declaration name: (identifier) @name) @field
(program (const_builtin) @constant
  . ["." (type_identifier) (type_arguments) (nullable_type) (function_type) (record_type)]*
  . (static_final_declaration_list (static_final_declaration . (identifier) @name)) @body)
(program (final_builtin) @variable
  . ["." (type_identifier) (type_arguments) (nullable_type) (function_type) (record_type)]*
  . (static_final_declaration_list (static_final_declaration . (identifier) @name)) @body)
(program (initialized_identifier_list (initialized_identifier . (identifier) @name)) @variable)

(import_or_export) @import
(part_directive) @import

(formal_parameter
  ["." (type_identifier) (type_arguments) (nullable_type) (function_type) (record_type)]+ @bind.type . name: (identifier) @bind)
(formal_parameter . (identifier) @bind)
(function_expression parameters: (formal_parameter_list (formal_parameter . (identifier) @bind))) @bind.in
(function_expression parameters: (formal_parameter_list (formal_parameter
  ["." (type_identifier) (type_arguments) (nullable_type)]+ @bind.type . name: (identifier) @bind))) @bind.in
(block (local_variable_declaration (initialized_variable_definition
  ["." (type_identifier) (type_arguments) (nullable_type) (function_type) (record_type)]+ @bind.type . name: (identifier) @bind))) @bind.in
(block (local_variable_declaration (initialized_variable_definition name: (identifier) @bind value: (_)+ @bind.value))) @bind.in
; `for_loop_parts` by its name would take 0.2 s to compile in each pattern.
(for_statement (_ name: (identifier) @bind value: (_)+ @bind.each)) @bind.in
(for_statement (_ ["." (type_identifier) (type_arguments) (nullable_type)]+ @bind.type . name: (identifier) @bind)) @bind.in
(for_element (_ name: (identifier) @bind value: (_)+ @bind.each)) @bind.in
(catch_parameters (identifier) @bind)
(variable_pattern (identifier) @bind)
(pattern_variable_declaration (_ (constant_pattern (identifier) @bind)))
(declaration
  ["." (type_identifier) (type_arguments) (nullable_type) (function_type) (record_type)]+ @bind.type
  . [(initialized_identifier_list (initialized_identifier . (identifier) @bind))
     (static_final_declaration_list (static_final_declaration . (identifier) @bind))
     (identifier_list (identifier) @bind)])
(declaration [(const_builtin) (final_builtin) (inferred_type)]
  . [(initialized_identifier_list (initialized_identifier . (identifier) @bind (_)+ @bind.value))
     (static_final_declaration_list (static_final_declaration . (identifier) @bind (_)+ @bind.value))])
(program (type_identifier) @bind.type . [(type_arguments) (nullable_type)]*
  . [(initialized_identifier_list (initialized_identifier . (identifier) @bind))
     (static_final_declaration_list (static_final_declaration . (identifier) @bind))])
(program [(const_builtin) (final_builtin) (inferred_type)]
  . [(initialized_identifier_list (initialized_identifier . (identifier) @bind (_)+ @bind.value))
     (static_final_declaration_list (static_final_declaration . (identifier) @bind (_)+ @bind.value))])
(enum_declaration name: (identifier) @bind.type body: (enum_body (enum_constant name: (identifier) @bind)))
(representation_declaration type: (_) @bind.type name: (identifier) @bind)
(function_signature
  ["." (type_identifier) (type_arguments) (nullable_type)]+ @returns . name: (identifier))
(getter_signature
  ["." (type_identifier) (type_arguments) (nullable_type)]+ @returns . name: (identifier))
(constructor_signature . name: (identifier) @returns)
(constant_constructor_signature (identifier) @returns . (identifier))
(factory_constructor_signature (identifier) @returns . (identifier))
(redirecting_factory_constructor_signature (identifier) @returns . (identifier))
(type_alias "=" . (type_identifier) @embeds)
(constructor_signature (identifier) @key . (identifier))
(constant_constructor_signature (identifier) @key . (identifier))
(factory_constructor_signature (identifier) @key . (identifier))
(redirecting_factory_constructor_signature (identifier) @key . (identifier))
(named_argument (label (identifier) @key))
((identifier) @key.of . (selector (argument_part (arguments (named_argument (label (identifier) @key)))))
  (#match? @key.of "^_?[A-Z]"))
(const_object_expression . (const_builtin) . (type_identifier) @key.of . (arguments (named_argument (label (identifier) @key))))
