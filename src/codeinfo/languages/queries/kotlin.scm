(line_comment) @comment
(multiline_comment) @comment
(string_content) @string
(character_literal) @string

(package_header (identifier) @name) @package
(class_declaration "interface" (type_identifier) @name) @interface
(class_declaration "enum" (type_identifier) @name) @enum
(class_declaration "class" (type_identifier) @name) @class
(object_declaration (type_identifier) @name) @object
(companion_object (type_identifier) @name) @object
(type_alias . (type_identifier) @name) @type
(enum_entry (simple_identifier) @name) @enum_member
(function_declaration receiver: (_) @scope (simple_identifier) @name) @function
(function_declaration (simple_identifier) @name) @function
(property_declaration (variable_declaration . (simple_identifier) @name)) @property
(class_parameter (binding_pattern_kind) (simple_identifier) @name) @property

(import_header) @import
