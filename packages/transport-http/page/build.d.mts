/** Script and style as they are served. */
export function bundle(): Promise<{ readonly script: string; readonly style: string }>;
