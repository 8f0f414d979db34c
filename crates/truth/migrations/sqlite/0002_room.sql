-- Room for an owner. What a seat's other columns don't use of it is filled with zeros here, so that a row never changes its
-- size: it is overwritten where it lies. A row that grows makes its page overflow sooner or later, and the page is split.
ALTER TABLE seats ADD COLUMN room BLOB;
