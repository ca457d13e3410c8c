(line_comment) @comment
(doc_comment) @comment
(container_doc_comment) @comment
(STRINGLITERALSINGLE) @string
(LINESTRING) @string

(Decl (FnProto function: (IDENTIFIER) @name)) @function
(VarDecl variable_type_function: (IDENTIFIER) @name
  (ErrorUnionExpr (SuffixExpr (ContainerDecl (ContainerDeclType "enum"))))) @enum
(VarDecl variable_type_function: (IDENTIFIER) @name (ErrorUnionExpr (SuffixExpr (ContainerDecl)))) @struct
(VarDecl variable_type_function: (IDENTIFIER) @name) @variable
(ContainerField field_member: (IDENTIFIER) @name) @field
