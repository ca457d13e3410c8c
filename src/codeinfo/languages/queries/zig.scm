(comment) @comment
(string) @string
(multiline_string) @string

(test_declaration "test" @name) @function
(function_declaration name: (identifier) @name) @function
(variable_declaration (identifier) @name (enum_declaration)) @enum
(variable_declaration (identifier) @name [(struct_declaration) (union_declaration) (opaque_declaration)]) @struct
(variable_declaration . ["pub" "export" "extern" "threadlocal" "comptime"]* . ["const" "var"] . (identifier) @name) @variable
(enum_declaration (container_field name: (identifier) @name) @enum_member)
(container_field name: (identifier) @name) @field
