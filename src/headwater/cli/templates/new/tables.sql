CREATE STREAMING TABLE device_minutes
MODE update
KEY (device, minute)
AS SELECT device, window.start AS minute, avg(celsius) AS celsius, count(*) AS readings
FROM signals
GROUP BY window(at, '1 minute'), device;
