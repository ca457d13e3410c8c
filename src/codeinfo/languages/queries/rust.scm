(line_comment) @comment
(block_comment) @comment
(string_content) @string
(char_literal) @string

(mod_item name: (identifier) @name) @module
(struct_item name: (type_identifier) @name) @struct
(union_item name: (type_identifier) @name) @struct
(enum_item name: (type_identifier) @name) @enum
(enum_variant name: (identifier) @name) @enum_member
(trait_item name: (type_identifier) @name) @trait
(type_item name: (type_identifier) @name) @type
(associated_type name: (type_identifier) @name) @type
(impl_item trait: (_) @base type: (_) @name) @impl
(impl_item type: (_) @name) @impl
(function_item name: (identifier) @name) @function
(function_signature_item name: (identifier) @name) @function
(macro_definition name: (identifier) @name) @macro
(const_item name: (identifier) @name) @constant
(static_item name: (identifier) @name) @variable
(field_declaration name: (field_identifier) @name) @field

(use_declaration) @import
(extern_crate_declaration) @import
(mod_item !body) @import

(parameter pattern: (identifier) @bind type: (_) @bind.type)
(parameter pattern: (mut_pattern (identifier) @bind) type: (_) @bind.type)
(closure_expression parameters: (closure_parameters (identifier) @bind)) @bind.in
(block (let_declaration pattern: (identifier) @bind type: (_) @bind.type)) @bind.in
(block (let_declaration pattern: (identifier) @bind !type value: (_) @bind.value)) @bind.in
(let_declaration pattern: (tuple_pattern (identifier) @bind))
(for_expression pattern: (identifier) @bind value: (_) @bind.each) @bind.in
(if_expression condition: (let_condition pattern: (tuple_struct_pattern (identifier) @bind) value: (_) @bind.value)) @bind.in
(match_arm pattern: (match_pattern (tuple_struct_pattern type: (_) (identifier) @bind))) @bind.in
(field_declaration name: (field_identifier) @bind type: (_) @bind.type)
(function_item return_type: (_) @returns)
(function_signature_item return_type: (_) @returns)
(struct_expression name: (_) @key.of body: (field_initializer_list (field_initializer field: (field_identifier) @key)))
(struct_expression name: (_) @key.of body: (field_initializer_list (shorthand_field_initializer (identifier) @key) @shorthand))
(struct_pattern type: (_) @key.of (field_pattern name: (_) @key))
