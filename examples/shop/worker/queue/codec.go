package queue

import (
	"encoding/json"
	"os"
)

func decode(path string) (Event, error) {
	var event Event
	data, err := os.ReadFile(path)
	if err != nil {
		return event, err
	}
	return event, json.Unmarshal(data, &event)
}

// Put writes an event under a temporary name first, so that a crash never leaves half of one.
func (q *Queue) Put(event Event) error {
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	temporary := q.dir + "/." + event.ID
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, q.dir+"/"+event.ID)
}
