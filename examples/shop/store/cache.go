// Package store keeps what is expensive to compute.
package store

import (
	"container/list"
	"sync"
)

type entry struct {
	key   string
	value []byte
}

// Cache holds a bounded number of values. When it is full, the value that was used longest ago makes room.
type Cache struct {
	mutex   sync.Mutex
	limit   int
	order   *list.List
	entries map[string]*list.Element
}

// NewCache makes an empty cache for at most limit values.
func NewCache(limit int) *Cache {
	return &Cache{limit: limit, order: list.New(), entries: map[string]*list.Element{}}
}

// Get returns the value of a key and marks it as just used.
func (c *Cache) Get(key string) ([]byte, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	element, found := c.entries[key]
	if !found {
		return nil, false
	}
	c.order.MoveToFront(element)
	return element.Value.(*entry).value, true
}

// Put stores a value and evicts the least recently used one if there are too many.
func (c *Cache) Put(key string, value []byte) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if element, found := c.entries[key]; found {
		element.Value.(*entry).value = value
		c.order.MoveToFront(element)
		return
	}
	c.entries[key] = c.order.PushFront(&entry{key, value})
	if c.order.Len() > c.limit {
		oldest := c.order.Back()
		c.order.Remove(oldest)
		delete(c.entries, oldest.Value.(*entry).key)
	}
}
