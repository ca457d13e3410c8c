(jsx_text) @string

(jsx_attribute . (property_identifier) @key)
((jsx_opening_element name: (_) @key.of attribute: (jsx_attribute . (property_identifier) @key))
  (#match? @key.of "^[A-Z]"))
((jsx_self_closing_element name: (_) @key.of attribute: (jsx_attribute . (property_identifier) @key))
  (#match? @key.of "^[A-Z]"))
