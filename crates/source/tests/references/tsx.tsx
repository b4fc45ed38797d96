import React, { useState } from 'react';
function View() {
  const [count, setCount] = useState(0);
  return <button onClick={() => setCount(count + 1)}>{format(count)}</button>;
}
