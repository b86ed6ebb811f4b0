// A page of the package in a real browser.
import { serve } from "./server.mjs";

/**
 * Opens a page in a new browser and calls `run(page, messages)`. `messages` collects what the page and its worker write
 * to the console, and errors that nobody caught.
 */
export async function withPage({ launch, host = "localhost", ...server }, run) {
  // The browser first: where it is missing, no server must be left that keeps the tests from ending.
  const browser = await launch();
  const { port, close } = await serve(server);
  try {
    const page = await browser.newPage();
    const messages = [];
    page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => messages.push(`uncaught: ${error.message}`));
    await page.goto(`http://${host}:${port}/`);
    return await run(page, messages);
  } finally {
    await browser.close();
    close();
  }
}

/** In the page: calls a function of the package and tells how that went. */
export async function call([name, ...parameters]) {
  const api = await import("/dist/index.js");
  let promise;
  try {
    promise = api[name](...parameters);
  } catch (error) {
    return { thrown: String(error) };
  }
  try {
    return { value: await promise };
  } catch (error) {
    const { name, code, reason, advice, message } = error;
    return { rejected: { name, code, reason, advice, message }, isStrategyError: error instanceof api.StrategyError };
  }
}
