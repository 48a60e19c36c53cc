// uPlot asks for these when it is loaded, so this is imported before it; nothing draws in unit tests.
globalThis.matchMedia ??= (() => ({
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
})) as never;
globalThis.devicePixelRatio ??= 1;
