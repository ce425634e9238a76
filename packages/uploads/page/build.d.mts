/** Scripts and styles as they are served. */
export function bundle(): Promise<
  Readonly<Record<"script" | "style" | "appScript" | "appStyle", string>>
>;
