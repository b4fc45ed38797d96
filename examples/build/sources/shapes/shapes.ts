export interface Point {
  x: number;
  y: number;
}

/** Computes the distance between two points. */
export function distance(a: Point, b: Point): number {
  const [dx, dy] = [a.x - b.x, a.y - b.y];
  return Math.hypot(dx, dy);
}

/** Computes the area of a polygon by the shoelace formula. */
export function polygonArea(points: Point[]): number {
  let sum = 0;
  for (let i = 0; i < points.length; i++) {
    const [a, b] = [points[i], points[(i + 1) % points.length]];
    sum += a.x * b.y - b.x * a.y;
  }
  return Math.abs(sum) / 2;
}

/** Rotates a point around the origin by an angle in degrees. */
export const rotate = (point: Point, degrees: number): Point => {
  const angle = (degrees * Math.PI) / 180;
  const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
  return { x: point.x * cos - point.y * sin, y: point.x * sin + point.y * cos };
};

/** Limits a number to a range between a minimum and a maximum. */
export function clamp(value: number, minimum: number, maximum: number): number {
  return Math.min(Math.max(value, minimum), maximum);
}

/** Groups the items of a list by the result of a function. */
export function groupBy<T>(items: T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(key(item)) ?? [];
    group.push(item);
    groups.set(key(item), group);
  }
  return groups;
}

/** Waits until a number of milliseconds has passed. */
export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Converts a hexadecimal color to its red, green and blue parts. */
export function hexToRgb(color: string): [number, number, number] {
  const value = parseInt(color.replace("#", ""), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Calls a function again until it succeeds or has failed too often. */
export async function retry<T>(attempt: () => Promise<T>, times: number): Promise<T> {
  for (let left = times; ; left--) {
    try {
      return await attempt();
    } catch (error) {
      if (left <= 1) throw error;
    }
  }
}

/** Shuffles the items of a list in place. */
export function shuffle<T>(items: T[]): void {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [items[i], items[j]] = [items[j], items[i]];
  }
}
