"""Operations by area; `shells.operations` loads a table when one of its operations is asked for."""
