package migrations

// UpFrom is Up with the files of a test, such as one that takes a minute.
var UpFrom = upFrom

// WaitLeft is how long Up waits for its lock.
var WaitLeft = waitLeft
